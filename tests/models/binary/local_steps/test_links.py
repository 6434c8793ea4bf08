"""Links against many digits, from one tail to the other."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from streaminfer.models.binary.local_steps import links

Z = [-1e4, -1001.0, -999.0, -300.0, -40.0, -8.0, -1.0, -1e-9, 0.0, 0.3, 5.0, 8.0, 36.0]


def exact(link: links.Link, z: float) -> list[float]:
    with mpmath.workdps(60):
        x = mpmath.mpf(z)
        if link is links.logistic:
            p = 1 / (1 + mpmath.exp(-x))
            return [float(mpmath.log(p)), float(1 - p), float(p * (1 - p))]
        if x < -300:
            # Mills's ratio by its continued fraction, which has all digits there.
            rest = -x
            for k in range(60, 0, -1):
                rest = -x + k / rest
            log = -(x**2) / 2 - mpmath.log(2 * mpmath.pi) / 2 - mpmath.log(rest)
            return [float(log), float(rest), float(rest * (rest + x))]
        part = mpmath.erfc(-x / mpmath.sqrt(2)) / 2
        slope = mpmath.npdf(x) / part
        return [float(mpmath.log(part)), float(slope), float(slope * (slope + x))]


@pytest.mark.parametrize("link", [links.logistic, links.probit])
@pytest.mark.parametrize("z", Z)
def test_a_link_has_its_digits(link: links.Link, z: float) -> None:
    """The log of a probit that is nearly 1 has its digits after the point; its bend loses what slope + z loses."""
    found = [float(each[0]) for each in link(np.array([z]))]
    wanted = exact(link, z)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-13, atol=2e-13)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-12)
    np.testing.assert_allclose(found[2], wanted[2], rtol=1e-9 if link is links.probit else 1e-12)


@pytest.mark.parametrize("link", [links.logistic, links.probit])
def test_a_link_is_finite_and_in_bounds_everywhere(link: links.Link) -> None:
    z = np.concatenate([np.linspace(-60, 60, 1201), [-1e300, -1e200, -1e100, -1e5, 1e5, 1e100, 1e200, 1e300]])
    log, slope, bend = link(z)
    assert np.isfinite(log).all()
    assert (log <= 0).all()
    assert (slope >= 0).all()
    assert (bend >= 0).all()
    assert (bend <= 1).all()
