/* betty.h: multilevel optimisation in C11. The whole public interface.
 *
 * How it works. User code does not compute, it records: a traced callback calls operations on symbolic tensors; the
 * library differentiates, plans and compiles what was recorded, and runs it many times. So the C code of a traced
 * callback runs a few times only, and what it takes from C (an option, a size, a literal) is a constant of the program.
 *
 *   traced    forward, training_step, validation_step, schedule, grad_callback, param_callback; an optimiser's
 *             update; a hypergradient method's start and step; an op's body, vjp and jvp
 *   host      configure_*, get_batch, on_inner_loop_start, epoch_callback, validation_end; a kernel's launch; the
 *             functions given to bt_host_scalar and bt_static_int
 *
 * Errors. A function that can fail returns bt_status, or NULL if it makes something. NULL and poisoned tensors may be
 * passed on everywhere, so nothing need be checked line by line: the first message is kept (bt_error), the engine
 * returns it from the next call that does work, and a mistake in a trace surfaces when the trace is compiled.
 *
 * Ownership. A tensor belongs to its trace; a module, data set or optimiser that is handed to another object, or
 * returned from a callback, to its receiver; all else to the caller, who frees it with bt_<noun>_free (NULL is fine).
 *
 * Threads. An engine is used by one thread at a time; user code is called on that thread, in a fixed order. */
#ifndef BETTY_H
#define BETTY_H

#include <betty/base.h>
#include <betty/data.h>
#include <betty/engine.h>
#include <betty/function.h>
#include <betty/nn.h>
#include <betty/op.h>
#include <betty/optim.h>
#include <betty/problem.h>
#include <betty/tensor.h>
#include <betty/text.h>
#ifdef __cplusplus
#include <betty/betty.hpp>
#endif

#endif
