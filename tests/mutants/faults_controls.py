"""Controls: what the harness must not take for a fault that was caught."""

from __future__ import annotations

from typing import Any

from mutants.planting import planted

TEST = "tests/noise/test_integer_noise.py::test_samples_have_shape_and_type"


@planted("oboro.noise.laplace:DiscreteLaplace.sample", caught_by=TEST, expected="survived")
def nothing_is_changed(original: Any, *given: Any, **more: Any) -> Any:
    """A stand-in that does what the original does."""
    return original(*given, **more)


@planted("oboro.noise.draws:shuffle", caught_by=TEST, expected="not reached")
def planted_where_the_test_does_not_go(original: Any, *given: Any, **more: Any) -> Any:
    """A fault in a part of the program that the test never runs."""
    raise AssertionError


@planted("oboro.noise.laplace:DiscreteLaplace.sample", caught_by=TEST, expected="fell over")
def the_program_falls_over(original: Any, *given: Any, **more: Any) -> Any:
    """A stand-in that only breaks down, so that nothing is learned about the test."""
    raise TypeError("planted")


@planted("oboro.noise.laplace:DiscreteLaplace.sample", caught_by=f"{TEST}_not", expected="no such test")
def no_test_of_that_name(original: Any, *given: Any, **more: Any) -> Any:
    """A test that was renamed or taken away."""
    return original(*given, **more)
