"""The grammar of specs: every policy there and back, and a sentence for everything that is not one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reprise.memory as m
from reprise.core import registry
from reprise.core.arguments import as_float, as_int
from reprise.core.registry import Policy, forms, parse, register, registered
from reprise.memory import as_retrieval, as_storage

KINDS = ("schedule", "retrieval")

# spec, the object it makes, its repr
POLICIES = [
    ("rpr", m.RandomisedPass(), "RandomisedPass()"),
    ("iid", m.IndependentBalanced(), "IndependentBalanced()"),
    ("fixed", m.FixedCycle(), "FixedCycle()"),
    ("reused:4", m.ReusedPass(4), "ReusedPass(traversals=4)"),
    ("hybrid:3", m.HybridPass(3), "HybridPass(slots=3)"),
    ("window:0.25", m.WindowedPass(0.25), "WindowedPass(width=0.25)"),
    ("window:1", m.WindowedPass(1), "WindowedPass(width=1.0)"),
    ("deadline:2", m.Deadline(2), "Deadline(stretch=2.0)"),
    ("deadline:1.5", m.Deadline(1.5), "Deadline(stretch=1.5)"),
    ("frozen-pass", m.FrozenPass(), "FrozenPass(size=None)"),
    ("frozen-pass:8", m.FrozenPass(8), "FrozenPass(size=8)"),
    ("frozen-iid", m.FrozenIndependent(), "FrozenIndependent(size=None)"),
    ("frozen-iid:8", m.FrozenIndependent(8), "FrozenIndependent(size=8)"),
    ("uniform", m.Uniform(), "Uniform()"),
    ("mir:50", m.MaximallyInterfered(50), "MaximallyInterfered(candidates=50)"),
]
STORAGES = [
    ("reservoir", m.Reservoir(), "Reservoir()"),
    ("brs", m.BalancedReservoir(), "BalancedReservoir()"),
    ("brs-always", m.AlwaysBalanced(), "AlwaysBalanced()"),
    ("cbrs", m.ClassBalancedReservoir(), "ClassBalancedReservoir()"),
    ("fifo", m.Fifo(), "Fifo()"),
    ("external", m.External(), "External()"),
]
IS_SCHEDULE = {spec: spec.partition(":")[0] in registered("schedule") for spec, _, _ in POLICIES}


def test_this_table_has_every_policy():
    names = {spec.partition(":")[0] for spec, _, _ in POLICIES + STORAGES}
    assert names == {name for kind in registry.POLICIES for name in registered(kind)}


@pytest.mark.parametrize(("spec", "policy", "text"), POLICIES + STORAGES)
def test_there_and_back(spec, policy, text):
    made, passing = parse(spec, "storage", *KINDS)
    assert made == policy
    assert hash(made) == hash(policy)
    assert made is not policy
    assert not passing
    assert policy.spec == made.spec == spec
    assert repr(policy) == text
    assert eval(text, vars(m)) == policy
    assert policy.fresh() == policy
    assert policy.fresh() is not policy


@pytest.mark.parametrize(("spec", "policy", "text"), [row for row in POLICIES if IS_SCHEDULE[row[0]]])
def test_plus_pass_there_and_back(spec, policy, text):
    made, passing = parse(f"{spec}+pass", *KINDS)
    assert (made, passing) == (policy, True)
    retrieval = as_retrieval(f"{spec}+pass")
    assert retrieval.spec == f"{spec}+pass"
    assert retrieval == m.Scheduled(policy, example_pass=True) == as_retrieval(retrieval.spec)
    assert retrieval != as_retrieval(spec) == as_retrieval(policy)
    assert repr(retrieval) == f"Scheduled(schedule={text}, example_pass=True)"
    assert len({retrieval, m.Scheduled(policy, True), as_retrieval(spec)}) == 2


def test_objects_and_specs_make_the_same_memory():
    for spec, policy, _ in STORAGES:
        assert as_storage(policy) is policy
        assert m.Memory(4, storage=policy).storage_spec == spec
    for spec, policy, _ in POLICIES:
        assert m.Memory(4, retrieval=policy).retrieval_spec == m.Memory(4, retrieval=spec).retrieval_spec == spec


def test_different_arguments_are_different_policies():
    everything = [policy for _, policy, _ in POLICIES + STORAGES]
    assert len(set(everything)) == len(everything)
    assert m.ReusedPass(4) != m.ReusedPass(5)
    assert m.RandomisedPass() != "rpr"
    assert m.FrozenPass() != m.FrozenIndependent()


@given(st.floats(1, 1e300, exclude_min=True))
def test_every_number_goes_there_and_back(stretch):
    policy = m.Deadline(stretch)
    assert parse(policy.spec, *KINDS) == (policy, False)
    assert parse(f"{policy.spec}+pass", *KINDS) == (policy, True)


@given(st.floats(0, 1, exclude_min=True))
def test_every_width_goes_there_and_back(width):
    assert parse(m.WindowedPass(width).spec, *KINDS)[0] == m.WindowedPass(width)


def test_forms():
    assert forms("storage") == ["brs", "brs-always", "cbrs", "external", "fifo", "reservoir"]
    assert "reused:K" in forms(*KINDS)
    assert "frozen-pass[:B]" in forms(*KINDS)
    assert forms("storage", *KINDS) == sorted(forms(*KINDS) + forms("storage"))


@pytest.mark.parametrize(
    ("spec", "nearest"),
    [
        ("rp", "rpr"),
        ("rprr+pass", "rpr"),
        ("RPR", "rpr"),
        ("unifrom", "uniform"),
        ("Uniform", "uniform"),
        ("reuse:4", "reused"),
        ("REUSED:4", "reused"),
        ("frozenpass", "frozen-pass"),
        ("frozen_iid", "frozen-iid"),
        ("dead-line:2", "deadline"),
        ("windows:0.5", "window"),
        ("hybird:2", "hybrid"),
        ("MIR:3", "mir"),
        ("cycle-fixed", "fixed"),
    ],
)
def test_an_unknown_spec_names_the_nearest(spec, nearest):
    with pytest.raises(ValueError) as caught:
        as_retrieval(spec)
    text = str(caught.value)
    assert repr(spec) in text
    assert f"did you mean {nearest!r}?" in text
    assert all(form in text for form in forms(*KINDS)), "it does not say what is known"


@pytest.mark.parametrize(
    ("spec", "nearest"),
    [("reservior", "reservoir"), ("BRS", "brs"), ("fif", "fifo"), ("c-brs", "cbrs"), ("brs_always", "brs-always")],
)
def test_an_unknown_storage_names_the_nearest(spec, nearest):
    with pytest.raises(ValueError) as caught:
        as_storage(spec)
    assert f"unknown storage {spec!r}" in str(caught.value)
    assert f"did you mean {nearest!r}?" in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("", ["''", "known"]),
        ("+pass", ["'+pass'"]),
        (":4", ["':4'"]),
        ("reservoir", ["'reservoir'", "unknown retrieval"]),
        ("reused", ["'reused'", "reused:K"]),
        ("reused:", ["''", "reused:K", "whole number"]),
        ("reused:x", ["'x'", "reused:K", "whole number"]),
        ("reused:4.0", ["'4.0'", "whole number"]),
        ("reused:1e3", ["'1e3'", "whole number"]),
        ("reused:4:5", ["'4:5'"]),
        ("reused:0", ["reused:K", "1 or more", "got 0"]),
        ("reused:-1", ["got -1"]),
        ("hybrid:0", ["hybrid:S", "got 0"]),
        ("rpr:3", ["'rpr:3'", "no argument"]),
        ("uniform:3", ["'uniform:3'", "no argument"]),
        ("window", ["window:W"]),
        ("window:0", ["window:W", "above 0", "got 0"]),
        ("window:1.01", ["at most 1", "1.01"]),
        ("window:-0.5", ["-0.5"]),
        ("window:wide", ["'wide'", "number"]),
        ("window:nan", ["nan"]),
        ("deadline:1", ["deadline:S", "above 1", "got 1"]),
        ("deadline:0.5", ["0.5"]),
        ("deadline:inf", ["inf"]),
        ("deadline:", ["''", "number"]),
        ("frozen-pass:0", ["frozen-pass:B", "got 0"]),
        ("frozen-iid:x", ["'x'"]),
        ("mir", ["mir:N"]),
        ("mir:0", ["got 0"]),
        ("rpr+pas", ["'+pas'", "+pass"]),
        ("rpr+", ["'rpr+'", "+pass"]),
        ("rpr+pass+pass", ["'rpr+pass+pass'"]),
        ("uniform+pass", ["'uniform'", "schedule"]),
        ("mir:5+pass", ["'mir'", "schedule"]),
    ],
)
def test_a_malformed_spec_is_answered_by_a_sentence(spec, words):
    with pytest.raises(ValueError) as caught:
        as_retrieval(spec)
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("spec", "word"), [("rpr", "'rpr'"), ("reservoir:3", "'reservoir:3'"), ("fifo+pass", "'fifo+pass'")]
)
def test_a_malformed_storage_is_answered_by_a_sentence(spec, word):
    with pytest.raises(ValueError, match=word.replace("+", r"\+")):
        as_storage(spec)


@pytest.mark.parametrize("wrong", [None, 3, b"rpr", ["rpr"], m.Reservoir(), object()])
def test_a_retrieval_must_be_a_spec_or_a_policy(wrong):
    with pytest.raises(TypeError) as caught:
        as_retrieval(wrong)
    assert repr(wrong) in str(caught.value)


@pytest.mark.parametrize("wrong", [None, 3, b"fifo", m.RandomisedPass(), m.Uniform()])
def test_a_storage_must_be_a_spec_or_a_policy(wrong):
    with pytest.raises(TypeError) as caught:
        as_storage(wrong)
    assert repr(wrong) in str(caught.value)


@pytest.mark.parametrize("wrong", [m.Reservoir, m.Fifo, m.RandomisedPass, m.Uniform])
def test_a_class_is_not_a_policy(wrong):
    make = as_storage if "storage" in wrong.__module__ else as_retrieval
    with pytest.raises(TypeError, match=wrong.__name__):
        make(wrong)


# Registration -----------------------------------------------------------------------------------------------------


@pytest.fixture
def _own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", registry._REGISTRY.copy())


@pytest.mark.usefixtures("_own_registry")
def test_anybody_may_register_a_policy():
    @register("storage", "mine", argument=int, letter="Q")
    class Mine(Policy):
        def __init__(self, q, other=None):
            self.q, self.other = q, other

    assert parse("mine:3", "storage") == (Mine(3), False)
    assert Mine(3).spec == "mine:3"
    assert "mine:Q" in forms("storage")
    assert repr(Mine(3)) == "Mine(q=3, other=None)"
    with pytest.raises(ValueError, match="'mine' is already Mine"):

        @register("storage", "mine")
        class Other(Policy):
            pass


def test_an_unregistered_policy_is_named_by_its_repr():
    class Mine(Policy):
        def __init__(self, q):
            self.q = q

    assert Mine(3).spec == "Mine(q=3)"
    with pytest.raises(ValueError, match="'shelf'"):
        register("shelf", "x")


@pytest.mark.parametrize("wrong", [True, 2.0, "3", None])
def test_whole_numbers(wrong):
    with pytest.raises(TypeError, match="the size must be a whole number") as caught:
        as_int(wrong, "the size", 1)
    assert repr(wrong) in str(caught.value)
    with pytest.raises(ValueError, match="the size must be 1 or more, got 0"):
        as_int(0, "the size", 1)


@pytest.mark.parametrize("wrong", [True, "3", None, 1j])
def test_numbers(wrong):
    with pytest.raises(TypeError, match="the width must be a number") as caught:
        as_float(wrong, "the width")
    assert repr(wrong) in str(caught.value)
    with pytest.raises(ValueError, match="finite, got -inf"):
        as_float(float("-inf"), "the width")
