"""Two bilevel problems, passed to solvers in the same way as by benchmark_bilevel: as JAX functions."""
import jax.numpy as jnp
import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    name = "libbetty: two levels"
    min_benchopt_version = "1.8"
    requirements = ["pip::jax"]

    def set_data(self, f_inner, f_outer, n_inner_samples, n_outer_samples, inner_var0, outer_var0, metrics):
        self.given = dict(f_inner=f_inner, f_outer=f_outer, n_inner_samples=n_inner_samples,
                          n_outer_samples=n_outer_samples, inner_var0=inner_var0, outer_var0=outer_var0)
        self.metrics = metrics

    def get_objective(self):
        return self.given

    def evaluate_result(self, inner_var, outer_var):
        if not (np.isfinite(inner_var).all() and np.isfinite(outer_var).all()):
            raise ValueError("a variable is not finite")
        return self.metrics(jnp.asarray(inner_var), jnp.asarray(outer_var))

    def get_one_result(self):
        return dict(inner_var=self.given["inner_var0"], outer_var=self.given["outer_var0"])
