"""Where two sequences part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cliff_core.sequences import common


@pytest.mark.parametrize("kind", [str, list, tuple])
@given(st.text("ab"), st.text("ab"), st.text("ab"))
def test_it_is_the_length_of_the_common_beginning(kind, shared, rest, other_rest):
    assert common(kind(shared + "x" + rest), kind(shared + "y" + other_rest)) == len(shared)
    assert common(kind(shared + rest), kind(shared)) == common(kind(shared), kind(shared + rest)) == len(shared)


@given(st.text("ab"), st.text("ab", min_size=1), st.text("ab"))
def test_what_is_before_the_start_is_not_looked_at(shared, skipped, rest):
    start = len(skipped)
    assert common(skipped + shared + "x" + rest, "z" * start + shared + "y", start) == start + len(shared)
