"""Rendering: untrusted documents become page images in worker processes that may die; `pool.RenderPool` is the way in.

Nothing is imported here, so that a worker loads its own half only.
"""
