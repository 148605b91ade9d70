"""The systems that the paper of Terada et al. compares with, on exact integers."""

from oboro.tables.papers import fourier, hierarchy, laplace, matrix, privelet, privelet2d, threshold

__all__ = ["fourier", "hierarchy", "laplace", "matrix", "privelet", "privelet2d", "threshold"]
