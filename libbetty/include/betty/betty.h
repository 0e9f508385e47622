/* betty.h: multilevel optimisation in C11. The whole public interface.
 *
 * How it works. User code does not compute, it records. A traced callback calls operations on symbolic tensors. The
 * library differentiates, plans and compiles the recorded operations, and runs them many times. So the C code of a
 * traced callback runs only a few times, and any value it takes from C (an option, a size, a literal) is a constant of
 * the program.
 *
 *   traced    forward, training_step, condition, validation_step, start, schedule, grad_callback, param_callback; an
 *             optimiser's update; a hypergradient method's start and step; an op's body, vjp and jvp
 *   host      configure_*, get_batch, on_inner_loop_start, epoch_callback, validation_end, sample; a kernel's launch;
 *             the functions given to bt_host_scalar and bt_static_int
 *
 * Errors. A function that can fail returns bt_status, or NULL if it makes an object. You may pass NULL and poisoned
 * tensors to any function, so you need not check every line. The first message is kept (bt_error), and the engine's
 * next call that does work returns its status. A mistake in a trace is reported when the trace is compiled.
 *
 * Ownership. A tensor belongs to its trace. A module, data set or optimiser that you pass to another object, or return
 * from a callback, belongs to its receiver. The caller owns everything else and frees it with bt_<noun>_free; NULL is
 * allowed.
 *
 * Threads. Only one thread at a time may use an engine. User code is called on that thread, in a fixed order. */
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
