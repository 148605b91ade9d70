"""Running a system, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from oboro.noise.compiling import compiled


@compiled
def respond_to(a: Any, b: Any, c: Any, d: Any, x0: Any, u: Any) -> Any:
    """y(t) = C x(t) + D u(t) for every row of u, from the state x0."""
    n, m, q = a.shape[0], b.shape[1], c.shape[0]
    x, following = x0.copy(), np.zeros(n)
    y = np.empty((u.shape[0], q))
    for t in range(u.shape[0]):
        for i in range(q):
            total = 0.0
            for k in range(n):
                total += c[i, k] * x[k]
            for k in range(m):
                total += d[i, k] * u[t, k]
            y[t, i] = total
        for i in range(n):
            total = 0.0
            for k in range(n):
                total += a[i, k] * x[k]
            for k in range(m):
                total += b[i, k] * u[t, k]
            following[i] = total
        for i in range(n):
            x[i] = following[i]
    return y
