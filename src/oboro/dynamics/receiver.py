"""A filter for the receiver: the true output, estimated from what was published and from the plan. All of it
is public.

The receiver says what is known of the input beforehand: a mean, a standard deviation, and how much of a
deviation is left at the next time. Given the scale of the noise everything is then Gaussian, and a Kalman
filter is exact.

    shared       one A for the record: a bank of filters, one for each of several A, weighted by how well
                 each predicts what was published. The mixture is the exact posterior, but for the number of
                 A in the bank.
    independent  the noise at each time is close to a Student t of alpha degrees, that is Gaussian with a
                 random precision. The precision is estimated at each time along with the state, a few rounds
                 [Agamennoni et al. 2012].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oboro.arrays import Floats
from oboro.dynamics.mixing_variable import nodes, size
from oboro.dynamics.plan import SignalPlan
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, rational, usable
from oboro.kinds import numbers_of, takes

_BANK = 24
_ROUNDS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """The estimated true output and its standard deviation, each of shape (times, outputs)."""

    y: Floats
    sd: Floats


@dataclass(frozen=True, slots=True)
class Prior:
    """What is known of the input beforehand: u(t+1) - mean = correlation (u(t) - mean) + something new."""

    mean: float
    sd: float
    correlation: float
    start_sd: float


@takes(plan=SignalPlan)
def estimate(
    published: Any,
    plan: SignalPlan,
    *,
    sd: Number,
    mean: Number = 0,
    correlation: Number = 0,
    start_sd: Number | None = None,
) -> Estimate:
    """Estimates the true output of a release, or of a series of published outputs, under `plan`.

    `sd`, `mean` and `correlation` describe the input as far as it is known beforehand; `start_sd` a private
    start around 0.

    >>> release = ob.dynamics.release([1, 0, 2, 0], plan, x0=[0.5], ledger=ledger)
    >>> better = ob.dynamics.estimate(release, plan, sd=1, mean=1, start_sd=1)
    >>> better.y.shape
    (4, 1)
    """
    rho = rational("correlation", correlation)
    if not -1 < rho < 1:
        raise ParameterError(
            "correlation is out of range",
            given=told(correlation=f"{correlation}"),
            needed="between -1 and 1",
            fix=setting(correlation=0.9),
        )
    if plan.sigma:
        raise ParameterError(
            "the filter is for noise that is not correlated over time",
            given="a plan with sigma",
            needed="noise on the input, or of one scale on the output",
            fix=setting(noise="shared") + ", which is the least sigma",
        )
    width = usable("sd", positive("sd", sd))
    prior = Prior(
        usable("mean", rational("mean", mean)),
        width,
        float(rho),
        width if start_sd is None else usable("start_sd", positive("start_sd", start_sd)),
    )
    table = published.to_arrow() if hasattr(published, "to_arrow") else published
    y = numbers_of("published", table.column("y").to_numpy() if hasattr(table, "column") else table)
    if y.size == 0 or y.size % plan.system.outputs or np.abs(y).max() > 1e100:
        raise ParameterError(
            "what was published does not fit the system",
            given=f"{y.size} numbers",
            needed=f"{plan.system.outputs} for each time, at most 1e100",
        )
    y = y.reshape(-1, plan.system.outputs)
    model = Model(plan, prior)
    return (
        model.robust(y)
        if plan.noise == "independent" and plan.alpha < 2
        else model.bank(y, _bank(float(plan.alpha)))
    )


def _bank(alpha: float) -> Floats:
    """Values of A at evenly spaced levels of its distribution."""
    rule = nodes(alpha)
    levels = (np.arange(_BANK) + 0.5) / _BANK
    return (
        rule.value
        if alpha == 2
        else np.exp(np.interp(levels, np.cumsum(rule.weight) - rule.weight / 2, np.log(rule.value)))
    )


class Model:
    """A state of the true x, the error e that input noise makes in it, the true u, and the noise v on it.

        x(t+1) = A x + B u,  e(t+1) = A e + B v,  true y = C x + D u
        published y = C (x + e) + D (u + v), and the noise on the output if it is there

    Every method works on a stack of filters at once: means (k, s) and covariances (k, s, s).
    """

    def __init__(self, plan: SignalPlan, prior: Prior) -> None:
        a, b, c, d = plan.system.arrays()
        n, m, q = plan.system.states, plan.system.inputs, plan.system.outputs
        self.n, self.m, self.q, self.prior = n, m, q, prior
        top = np.hstack([a, np.zeros((n, n)), b, np.zeros((n, m))])
        error = np.hstack([np.zeros((n, n)), a, np.zeros((n, m)), b])
        own = np.hstack([np.zeros((m, 2 * n)), prior.correlation * np.eye(m), np.zeros((m, m))])
        self.move = np.vstack([top, error, own, np.zeros((m, 2 * n + 2 * m))])
        self.seen, self.true = np.hstack([c, c, d, d]), np.hstack([c, np.zeros((q, n)), d, np.zeros((q, m))])
        self.u, self.v = np.arange(2 * n, 2 * n + m), np.arange(2 * n + m, 2 * n + 2 * m)
        self.scale, self.alpha = float(plan.scale), float(plan.alpha)
        self.on_input = plan.where == "input"
        self.on_u, self.on_x0 = (
            ("u" in plan.protect and self.on_input),
            ("x0" in plan.protect and self.on_input),
        )
        self.at_once = bool(np.any(d))  # noise on u shows in y at the same time, else one step later
        self.direct = c @ b
        self.start_mean = np.concatenate(
            [plan.public_start, np.zeros(n), np.full(m, prior.mean), np.zeros(m)]
        )
        self.start_sd = prior.start_sd if "x0" in plan.protect else 0.0

    def bank(self, y: Floats, values: Floats) -> Estimate:
        """One filter for each A, weighted in the end by how well it predicted everything."""
        noise = self.scale**2 * values
        mean, cov = self.start(noise)
        means, spreads = np.empty((len(y), values.size, self.q)), np.empty((len(y), values.size, self.q))
        log_weight = np.zeros(values.size)
        for t, seen in enumerate(y):
            mean, cov, more = self.update(mean, cov, seen, noise)
            log_weight += more
            means[t], spreads[t] = self.told(mean, cov)
            mean, cov = self.predict(mean, cov, noise)
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        middle = np.einsum("k,tkq->tq", weight, means)
        return Estimate(
            middle, np.sqrt(np.einsum("k,tkq->tq", weight, spreads + (means - middle[:, None]) ** 2))
        )

    def robust(self, y: Floats) -> Estimate:
        """One filter; the variance of the noise that shows in y(t) is fitted at each time, a few rounds."""
        from scipy.special import stdtrit

        # a Student t of alpha degrees with the same median size as the noise
        usual = np.array([(self.scale * size(self.alpha, 0.5) / float(stdtrit(self.alpha, 0.75))) ** 2])
        before: tuple[Floats, Floats] | None = None
        out, spread = np.empty_like(y), np.empty_like(y)
        for t, seen in enumerate(y):
            noise = usual
            for _ in range(_ROUNDS):
                if before is None:
                    mean, cov = self.start(noise)
                elif self.at_once or not self.on_input:
                    mean, cov = self.predict(*before, noise)
                else:
                    mean, cov = self.predict(before[0], self.with_noise(before[1], noise), usual)
                later = self.update(mean, cov, seen, noise)
                noise = usual * self.excess(mean, cov, later, seen, noise, usual)
            before = later[0], later[1]
            out[t], spread[t] = (part[0] for part in self.told(*before))
        return Estimate(out, np.sqrt(spread))

    def excess(
        self, mean: Floats, cov: Floats, later: Any, seen: Floats, noise: Floats, usual: Floats
    ) -> float:
        """1/E[precision]: (alpha + E|noise|^2/usual) / (alpha + how many), the noise as y(t) shows it."""
        if not self.on_input:
            miss = seen - later[0][0] @ self.seen.T
            total, count = float(miss @ miss + np.trace(self.seen @ later[1][0] @ self.seen.T)), self.q
        elif not self.on_u:
            return 1.0
        elif self.at_once:
            mean_v, cov_v = later[0][0, self.v], later[1][0][np.ix_(self.v, self.v)]
            total, count = float(mean_v @ mean_v + np.trace(cov_v)), self.m
        else:
            expected = self.seen @ cov[0] @ self.seen.T
            gain = (
                noise[0]
                * self.direct.T
                @ np.linalg.pinv(expected + 1e-12 * np.trace(expected) * np.eye(self.q))
            )
            guess = gain @ (seen - mean[0] @ self.seen.T)
            total, count = (
                float(guess @ guess + noise[0] * np.trace(np.eye(self.m) - gain @ self.direct)),
                self.m,
            )
        return (self.alpha + total / float(usual[0])) / (self.alpha + count)

    def start(self, noise: Floats) -> tuple[Floats, Floats]:
        """Means and covariances before anything is seen; `noise` is the variance of the noise on a number."""
        n, k = self.n, noise.size
        cov = np.zeros((k, len(self.move), len(self.move)))
        cov[:, range(n), range(n)] = self.start_sd**2
        cov[:, range(n, 2 * n), range(n, 2 * n)] = noise[:, None] if self.on_x0 else 0.0
        cov[:, self.u, self.u] = self.prior.sd**2
        return np.repeat(self.start_mean[None], k, axis=0), self.with_noise(cov, noise)

    def with_noise(self, cov: Floats, noise: Floats) -> Floats:
        """The variance of v where nothing is known of it yet."""
        cov = cov.copy()
        cov[:, self.v, self.v] = noise[:, None] if self.on_u else 0.0
        return cov

    def predict(self, mean: Floats, cov: Floats, noise: Floats) -> tuple[Floats, Floats]:
        mean = mean @ self.move.T
        mean[:, self.u] += (1 - self.prior.correlation) * self.prior.mean
        cov = self.move @ cov @ self.move.T
        cov[:, self.u, self.u] += self.prior.sd**2 * (1 - self.prior.correlation**2)
        return mean, self.with_noise(cov, noise)

    def update(self, mean: Floats, cov: Floats, seen: Floats, noise: Floats) -> tuple[Floats, Floats, Floats]:
        eye = np.eye(self.q)
        expected = self.seen @ cov @ self.seen.T + (0.0 if self.on_input else noise[:, None, None] * eye)
        expected = (
            expected + 1e-12 * np.maximum(np.trace(expected, axis1=1, axis2=2), 1e-300)[:, None, None] * eye
        )
        gain = np.swapaxes(np.linalg.solve(expected, self.seen @ cov), 1, 2)
        miss = seen - mean @ self.seen.T
        solved = np.linalg.solve(expected, miss[:, :, None])[:, :, 0]
        log_likelihood = -0.5 * ((miss * solved).sum(axis=1) + np.linalg.slogdet(expected)[1])
        cov = cov - gain @ expected @ np.swapaxes(gain, 1, 2)
        return mean + (gain @ miss[:, :, None])[:, :, 0], (cov + np.swapaxes(cov, 1, 2)) / 2, log_likelihood

    def told(self, mean: Floats, cov: Floats) -> tuple[Floats, Floats]:
        """The true output: means and variances."""
        return mean @ self.true.T, np.maximum(np.einsum("qi,kij,qj->kq", self.true, cov, self.true), 0.0)
