"""The method of the solver libbetty, written out in JAX: gradient descent for the lower problem, Adam for the upper
one, and conjugate gradients for the hypergradient."""
from functools import partial

import jax
import jax.numpy as jnp
from benchopt import BaseSolver


class Solver(BaseSolver):
    name = "implicit"
    sampling_strategy = "callback"
    requirements = ["pip::jax"]
    parameters = {"iterations": [10], "unroll_steps": [10], "lr": [0.1], "upper_lr": [0.05], "eval_freq": [10]}

    def set_objective(self, f_inner, f_outer, n_inner_samples, n_outer_samples, inner_var0, outer_var0, **_):
        lower = partial(f_inner, start=0, batch_size=n_inner_samples)
        upper = partial(f_outer, start=0, batch_size=n_outer_samples)

        def descend(w, u):
            return jax.lax.fori_loop(0, self.unroll_steps, lambda _, w: w - self.lr * jax.grad(lower)(w, u), w)

        def hypergradient(w, u):
            direct, below = jax.grad(upper, 1)(w, u), jax.grad(upper)(w, u)

            def product(v):
                return jax.jvp(lambda w: jax.grad(lower)(w, u), (w,), (v,))[1]
            x, _ = jax.scipy.sparse.linalg.cg(product, below, tol=1e-6, maxiter=self.iterations)
            return direct - jax.vjp(lambda u: jax.grad(lower)(w, u), u)[1](x)[0]

        def step(t, state):
            w, u, m, v = state
            w = descend(w, u)
            g = hypergradient(w, u)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            m_hat, v_hat = m / (1 - 0.9 ** (t + 1)), v / (1 - 0.999 ** (t + 1))
            return w, u - self.upper_lr * m_hat / (jnp.sqrt(v_hat) + 1e-8), m, v

        self.steps = jax.jit(lambda t, state: jax.lax.fori_loop(t, t + self.eval_freq, step, state))
        w, u = jnp.asarray(inner_var0), jnp.asarray(outer_var0)
        self.first = w, u, jnp.zeros_like(u), jnp.zeros_like(u)
        self.state = self.steps(0, self.first)  # compiles

    def run(self, callback):
        self.state, t = self.first, 0
        while callback():
            self.state, t = jax.block_until_ready(self.steps(t, self.state)), t + self.eval_freq

    def get_result(self):
        return dict(inner_var=self.state[0], outer_var=self.state[1])
