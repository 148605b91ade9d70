"""The laws of laws.py in compiled float balls: word by word, the first 64 bits of each uniform in, an enclosure out."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from oboro.arrays import Floats, Words
from oboro.noise import floatball as fb
from oboro.noise.compiler import compiled
from oboro.noise.lazy import ball, precision


def run(kernel: Callable[..., None], words: Words, *parameters: float) -> tuple[Floats, Floats]:
    mid, rad = np.empty(words.shape[1]), np.empty(words.shape[1])
    kernel(words, *parameters, mid, rad)
    return mid, rad


def float_balls(*numbers: Fraction) -> list[float]:
    with precision(128):
        return [part for number in numbers for part in fb.float_ball(ball(number))]


@compiled
def folded(word: np.uint64) -> tuple[float, float, float]:
    """min(U, 1 - U), accurate near both ends, and the sign of U - 1/2."""
    if word < np.uint64(1 << 63):
        mid, rad = fb.unit_ball(word)
        return mid, rad, -1.0
    mid, rad = fb.unit_ball(~word)  # 1 - U lies in [2^64 - 1 - word, 2^64 - word] / 2^64
    return mid, rad, 1.0


@compiled
def cauchy(words: Words, mid: Floats, rad: Floats) -> None:
    for i in range(mid.size):
        t, t_rad, sign = folded(words[0, i])
        sine, sine_rad, cosine, cosine_rad = fb.sin_cos_pi_ball(t, t_rad)
        value, rad[i] = fb.div_ball(cosine, cosine_rad, sine, sine_rad)
        mid[i] = sign * value


@compiled
def laplace(words: Words, mid: Floats, rad: Floats) -> None:
    for i in range(mid.size):
        t, t_rad, sign = folded(words[0, i])
        value, rad[i] = fb.log_ball(2.0 * t, 2.0 * t_rad)
        mid[i] = -sign * value


@compiled
def normal(words: Words, mid: Floats, rad: Floats) -> None:
    for i in range(mid.size):
        u, u_rad = fb.unit_ball(words[0, i])
        v, v_rad = fb.unit_ball(words[1, i])
        log, log_rad = fb.log_ball(u, u_rad)
        radius, radius_rad = fb.sqrt_ball(-2.0 * log, 2.0 * log_rad)
        _, _, cosine, cosine_rad = fb.sin_cos_pi_ball(2.0 * v, 2.0 * v_rad)
        mid[i], rad[i] = fb.mul_ball(radius, radius_rad, cosine, cosine_rad)


@compiled
def student(
    words: Words, nu: float, nu_rad: float, power: float, power_rad: float, mid: Floats, rad: Floats
) -> None:
    for i in range(mid.size):
        u, u_rad = fb.unit_ball(words[0, i])
        v, v_rad = fb.unit_ball(words[1, i])
        x, x_rad = fb.log_ball(u, u_rad)
        x, x_rad = fb.mul_ball(x, x_rad, power, power_rad)
        x, x_rad = fb.exp_ball(x, x_rad)
        x, x_rad = fb.add_ball(x, x_rad, -1.0, 0.0)
        x, x_rad = fb.mul_ball(x, x_rad, nu, nu_rad)
        x, x_rad = fb.sqrt_ball(x, x_rad)
        _, _, cosine, cosine_rad = fb.sin_cos_pi_ball(2.0 * v, 2.0 * v_rad)
        mid[i], rad[i] = fb.mul_ball(x, x_rad, cosine, cosine_rad)


@compiled
def stable(
    words: Words, alpha: float, alpha_rad: float, rest: float, rest_rad: float, mid: Floats, rad: Floats
) -> None:
    for i in range(mid.size):
        u, u_rad = fb.unit_ball(words[0, i])
        t, t_rad, _ = folded(words[0, i])
        v, v_rad = fb.unit_ball(words[1, i])
        x, x_rad = fb.mul_ball(u, u_rad, rest, rest_rad)
        x, x_rad, _, _ = fb.sin_cos_pi_ball(x, x_rad)
        e, e_rad = fb.log_ball(v, v_rad)
        x, x_rad = fb.div_ball(x, x_rad, -e, e_rad)
        x, x_rad = fb.log_ball(x, x_rad)
        x, x_rad = fb.mul_ball(x, x_rad, rest, rest_rad)
        y, y_rad, _, _ = fb.sin_cos_pi_ball(t, t_rad)  # sin(pi U) = sin(pi (1 - U))
        y, y_rad = fb.log_ball(y, y_rad)
        x, x_rad = fb.add_ball(x, x_rad, -y, y_rad)
        x, x_rad = fb.div_ball(x, x_rad, alpha, alpha_rad)
        x, x_rad = fb.exp_ball(x, x_rad)
        y, y_rad = fb.mul_ball(u, u_rad, alpha, alpha_rad)
        y, y_rad, _, _ = fb.sin_cos_pi_ball(y, y_rad)
        mid[i], rad[i] = fb.mul_ball(x, x_rad, y, y_rad)


@compiled
def scaled(
    normal: Floats, normal_rad: Floats, sigma: float, sigma_rad: float, mid: Floats, rad: Floats
) -> None:
    """mid times e^(sigma normal), as float balls."""
    for i in range(mid.size):
        x, x_rad = fb.mul_ball(normal[i], normal_rad[i], sigma, sigma_rad)
        x, x_rad = fb.exp_ball(x, x_rad)
        mid[i], rad[i] = fb.mul_ball(mid[i], rad[i], x, x_rad)
