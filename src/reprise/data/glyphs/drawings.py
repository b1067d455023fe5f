"""The hundred base drawings, and the distance fields that they are rendered from.

A drawing is strokes over a grid of 5 × 5 points, called a … y row by row: `"scopx"` is one stroke through five points,
`"vnt ky vi"` three strokes. A seeded search over such strokes chose the hundred so that no two overlap much, even when
moved against each other by a little.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from reprise.core.rng import Random

_STROKES = """
scopx / psjcfr / vnt ky vi / lhd jtd / tdby ny / ipvx / rlaiw / etjq ac / bies vbh / msjulf /
skb gd km / uwdqe / fdhlp / qbh vxu wc / csymqu / suw wj / pfmsv / jfem tv / fti ca pg / lbna vg /
ckg vk bd / jgw gm / teul / nwyo ob / dyvh / msfy / tbe ky hd / kuea / tjdah / gakv ky /
rvnw xf / dhoc drx ck / jywhpa / eyrlbf / jbnq / guaoe / lisv / dtufb / msu odb / syvl dac /
hey jy uw / ucmo / xmo bk xa / hjkv / dnwk / esw blp / twgp / fub rn / sqce / uwyh /
olam jn ux / fme yo / txmj qkg / woyi qga / jtrlx / jyr gu / hyn au dr / vfhtc / xng pm / vry ro pb /
djapy / ebnd vk xp / jnwua / xqwh / avhj sy / vxae wo / khse / kqxh ku te / vynkc / ywfd /
enj ta xj / jkbr / swj ag ck / tbf rp / lhd jr ak / orn fb cg / wuyra rx / bpf doy / bmxrh / aktrv ei /
kae cs / givp yo mg / nph pd / vyjd flt / wmukt gd / xtbk bf bn / heb xuy / iry jga / emj ku / itn txo gk /
oyw ef / cwu jyn / cap xo uf / utj ga / krp pa tn / vplrod / vfwu tj / pluw eb / yrc ck / fmdw
"""
DRAWINGS: tuple[str, ...] = tuple(" ".join(drawing.split()) for drawing in _STROKES.split("/"))

CELLS = 128
"""Cells along one side of a distance field."""
REACH = 1.5
"""Half the side of a distance field, where the grid of points spans −1 … 1."""
CLUTTER = 64
"""How many drawings of loose strokes there are to disturb the background with."""


@lru_cache(maxsize=1)
def glyph_fields() -> NDArray[np.float32]:
    """For each drawing, the distance of every cell to its nearest stroke."""
    return np.stack([_field([[_point(ord(sign) - ord("a")) for sign in s] for s in d.split()]) for d in DRAWINGS])


@lru_cache(maxsize=1)
def clutter_fields() -> NDArray[np.float32]:
    """The same for loose strokes that belong to no class: three lines each, anywhere in the field."""
    random = Random(0, "glyphs/clutter")
    fields = []
    for _ in range(CLUTTER):
        ends = [coordinate / 32 - REACH for coordinate in random.below_each([97] * 12)]
        fields.append(_field([[(ends[k], ends[k + 1]), (ends[k + 2], ends[k + 3])] for k in (0, 4, 8)]))
    return np.stack(fields)


def _point(place: int) -> tuple[float, float]:
    return place % 5 / 2 - 1, place // 5 / 2 - 1


def _field(strokes: list[list[tuple[float, float]]]) -> NDArray[np.float32]:
    # Element-wise operations alone, each rounded as IEEE 754 says: the same field on every machine.
    line = (np.arange(CELLS) + 0.5) * (2 * REACH / CELLS) - REACH
    x, y = line[None, :], line[:, None]
    nearest = np.full((CELLS, CELLS), 4 * REACH * REACH)
    for stroke in strokes:
        for (x0, y0), (x1, y1) in pairwise(stroke):
            dx, dy = x1 - x0, y1 - y0
            length = dx * dx + dy * dy or 1.0
            along = np.clip(((x - x0) * dx + (y - y0) * dy) / length, 0.0, 1.0)
            across, down = x - x0 - along * dx, y - y0 - along * dy
            np.minimum(nearest, across * across + down * down, out=nearest)
    field: NDArray[np.float32] = np.sqrt(nearest).astype(np.float32)
    return field
