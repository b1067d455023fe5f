"""The colours of pictures. Each stands for itself in a picture file; on a page it is a variable of the stylesheet."""

from __future__ import annotations

# Colours that the colour-blind tell apart (after Okabe and Ito), in the order of the rows.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b4559b", "#b27a00", "#3a9bd9", "#7a6ff0")
INK, MUTED, GRID, OTHERS, NEVER = "#1c2127", "#5c6570", "#e3e6ea", "#bcc3cb", "#eef0f2"

VARIABLES = {
    "ink": INK,
    "muted": MUTED,
    "grid": GRID,
    "others": OTHERS,
    "never": NEVER,
    **{f"c{place}": colour for place, colour in enumerate(COLOURS)},
}
"""What `page.css` calls each of them, where light and dark have values of their own."""
