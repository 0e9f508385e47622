/* tests/engine/test_null.c: every public function survives NULL and reports it, on the host and while tracing. */
#include "levels.h"

#include "support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bt_tensor *const t; /* typed NULLs */
static bt_module *const m;
static bt_problem *const p;
static bt_engine *const e;
static bt_rule *const r;
static bt_dataset *const d;
static bt_batch *const b;
static bt_loader *const l;
static bt_tokenizer *const k;
static bt_function *const f;
static bt_optimizer *const o;
static const char *const s;
static const bt_array none;
static const bt_batch *batch;

/* clang-format off */
#define ONE(X, name) X(name, name(t))
#define TWO(X, name) X(name, name(t, t)) X(name, name(t, 2.0)) X(name, name(1, t))

/* Functions that may be silent: NULL is allowed. */
#define SILENT(X)                                                                                                      \
    X(bt_has_slot, bt_has_slot(r, s))                                                                                  \
    X(bt_error, bt_error()) X(bt_error_clear, bt_error_clear()) X(bt_host_uniform, bt_host_uniform(1, 2, 3))           \
    X(bt_array_of, bt_array_of(BT_F32, NULL, NULL)) X(bt_array_count, bt_array_count(none))                            \
    X(bt_init_constant, bt_init_constant(1)) X(bt_init_normal, bt_init_normal(0, 1))                                   \
    X(bt_init_uniform, bt_init_uniform(0, 1)) X(bt_init_array, bt_init_array(none))                                    \
    X(bt_operand_module_, bt_operand_module_(m))                                                                       \
    X(bt_engine_free, bt_engine_free(e)) X(bt_function_free, bt_function_free(f)) X(bt_module_free, bt_module_free(m)) \
    X(bt_optimizer_free, bt_optimizer_free(o)) X(bt_dataset_free, bt_dataset_free(d))                                  \
    X(bt_batch_free, bt_batch_free(b)) X(bt_loader_free, bt_loader_free(l))                                            \
    X(bt_tokenizer_free, bt_tokenizer_free(k)) X(bt_tokenizer_size, bt_tokenizer_size(k))                              \
    X(bt_tokenizer_id, bt_tokenizer_id(k, s)) X(bt_tokenizer_token, bt_tokenizer_token(k, 0))                          \
    X(bt_tokenizer_special, bt_tokenizer_special(k, BT_MASK))                                                          \
    X(bt_rank, bt_rank(t)) X(bt_dim, bt_dim(t, 0)) X(bt_engine_metric, bt_engine_metric(e, s))                         \
    X(bt_check_result_free, bt_check_result_free(NULL)) X(bt_memory_table_free, bt_memory_table_free(NULL))            \
    X(bt_engine_steps, bt_engine_steps(e))                                                                             \
    X(bt_user, bt_user(p)) X(bt_param_count, bt_param_count(m)) X(bt_net, bt_net(p))                                   \
    X(bt_engine_new, bt_engine_free(bt_engine_new())) X(bt_batch_new, bt_batch_free(bt_batch_new()))                   \
    X(bt_module_new, bt_module_free(bt_module_new(NULL))) X(bt_operand_number_, bt_operand_number_(1))                 \
    X(bt_nn_fn, bt_module_free(bt_nn_fn(NULL))) X(bt_nn_linear, bt_module_free((bt_nn_linear)(-1, 0, NULL)))           \
    X(bt_linear_defaults, bt_linear_defaults()) X(bt_embedding_defaults, bt_embedding_defaults())                      \
    X(bt_nn_embedding, bt_module_free((bt_nn_embedding)(0, 0, NULL)))                                                  \
    X(bt_layer_norm_defaults, bt_layer_norm_defaults()) X(bt_attention_defaults, bt_attention_defaults())              \
    X(bt_nn_attention_defaults, bt_nn_attention_defaults()) X(bt_transformer_defaults, bt_transformer_defaults())      \
    X(bt_nn_attention, bt_module_free((bt_nn_attention)(0, 0, NULL)))                                                  \
    X(bt_nn_transformer, bt_module_free(bt_nn_transformer(NULL)))                                                      \
    X(bt_nn_transformer_layer, bt_module_free(bt_nn_transformer_layer(NULL)))                                          \
    X(bt_recurrent_defaults, bt_recurrent_defaults()) X(bt_nn_lstm, bt_module_free((bt_nn_lstm)(0, 0, NULL)))          \
    X(bt_nn_gru, bt_module_free((bt_nn_gru)(0, 0, NULL))) X(bt_nn_lstm_cell, bt_module_free(bt_nn_lstm_cell(0, 0)))    \
    X(bt_nn_gru_cell, bt_module_free(bt_nn_gru_cell(0, 0))) X(bt_nn_lora, bt_module_free(bt_nn_lora(NULL, 0, 0)))      \
    X(bt_nn_dropout, bt_module_free(bt_nn_dropout(2)))                                                                 \
    X(bt_nn_layer_norm, bt_module_free((bt_nn_layer_norm)(0, NULL)))                                                   \
    X(bt_nn_parameter, bt_module_free((bt_nn_parameter)(bt_init_array(none), NULL)))                                   \
    X(bt_nn_mlp, bt_module_free((bt_nn_mlp)(NULL, NULL)))                                                              \
    X(bt_nn_sequential, bt_module_free((bt_nn_sequential)(NULL)))                                                      \
    X(bt_conv2d_defaults, bt_conv2d_defaults()) X(bt_batch_norm_defaults, bt_batch_norm_defaults())                    \
    X(bt_cross_entropy_defaults, bt_cross_entropy_defaults())                                                          \
    X(bt_init_kaiming_normal, bt_init_kaiming_normal(0)) X(bt_init_kaiming_uniform, bt_init_kaiming_uniform(0))        \
    X(bt_init_xavier_normal, bt_init_xavier_normal(0, 1)) X(bt_init_xavier_uniform, bt_init_xavier_uniform(1, 0))      \
    X(bt_nn_darts_edges, bt_nn_darts_edges(-1)) X(bt_nn_conv2d, bt_module_free((bt_nn_conv2d)(0, 1, 1, NULL)))         \
    X(bt_nn_batch_norm, bt_module_free((bt_nn_batch_norm)(0, NULL)))                                                   \
    X(bt_nn_max_pool2d, bt_module_free(bt_nn_max_pool2d(0, 0, 0)))                                                     \
    X(bt_nn_avg_pool2d, bt_module_free(bt_nn_avg_pool2d(0, 0, 0)))                                                     \
    X(bt_nn_group_norm, bt_module_free(bt_nn_group_norm(0, 0)))                                                        \
    X(bt_nn_instance_norm, bt_module_free(bt_nn_instance_norm(0)))                                                     \
    X(bt_nn_resnet, bt_module_free(bt_nn_resnet(0, 0, 0)))                                                             \
    X(bt_nn_resnet_cifar, bt_module_free(bt_nn_resnet_cifar(0, 0, 0)))                                                 \
    X(bt_nn_wide_resnet, bt_module_free(bt_nn_wide_resnet(0, 0, 0, 0, 2)))                                             \
    X(bt_nn_convnet_strided, bt_module_free(bt_nn_convnet_strided(0, 0, 0, 0)))                                        \
    X(bt_nn_convnet, bt_module_free(bt_nn_convnet(0, 0, 0, 0, 0, 0)))                                                  \
    X(bt_nn_lenet, bt_module_free(bt_nn_lenet(0, 0, 0, 0)))                                                            \
    X(bt_nn_darts, bt_module_free(bt_nn_darts(0, 0, 0, 0, 0)))                                                         \
    X(bt_operand_integer_, bt_operand_integer_(1)) X(bt_operand_tensor_, bt_operand_tensor_(t))

#define TOLD(X)                                                                                                        \
    X(bt_fail, bt_fail(BT_ERROR_DATA, s, 0))                                                                           \
    X(bt_constant, bt_constant(none)) ONE(X, bt_zeros_like) ONE(X, bt_normal_like) ONE(X, bt_neg) ONE(X, bt_abs)       \
    ONE(X, bt_sign) ONE(X, bt_square) ONE(X, bt_sqrt) ONE(X, bt_exp) ONE(X, bt_log) ONE(X, bt_log1p) ONE(X, bt_sin)    \
    ONE(X, bt_expm1) ONE(X, bt_atan) ONE(X, bt_sinh) ONE(X, bt_cosh) ONE(X, bt_erf) ONE(X, bt_floor)                   \
    ONE(X, bt_selu) ONE(X, bt_silu) ONE(X, bt_mish) ONE(X, bt_log_sigmoid) ONE(X, bt_logit) ONE(X, bt_tan)             \
    ONE(X, bt_asin) ONE(X, bt_acos) ONE(X, bt_asinh) ONE(X, bt_acosh) ONE(X, bt_atanh) ONE(X, bt_ceil)                 \
    ONE(X, bt_rint) ONE(X, bt_isfinite) ONE(X, bt_not) ONE(X, bt_inverse) ONE(X, bt_logdet)                            \
    X(bt_leaky_relu, bt_leaky_relu(t, 1)) X(bt_elu, bt_elu(t, 1)) X(bt_and, bt_and(t, t)) X(bt_or, bt_or(t, t))        \
    X(bt_logsumexp, bt_logsumexp(t, 0)) X(bt_logsumexp, (bt_logsumexp)(t, NULL)) X(bt_prod, bt_prod(t, 0))             \
    X(bt_expand, bt_expand(t, 1)) X(bt_expand, (bt_expand)(t, NULL)) X(bt_flip, bt_flip(t, 0))                         \
    X(bt_roll, bt_roll(t, 1, 0)) X(bt_pad, bt_pad(t, 0, 1, 1)) X(bt_tril, bt_tril(t, 0)) X(bt_triu, bt_triu(t, 0))     \
    X(bt_arange, bt_arange(-1)) X(bt_eye, bt_eye(-1)) X(bt_stack, bt_stack(0, t, t)) X(bt_stack, (bt_stack)(0, NULL))  \
    X(bt_linear_solve, bt_linear_solve(t, t)) X(bt_mae, bt_mae(t, t)) X(bt_huber, bt_huber(t, t, 1))                   \
    X(bt_soft_cross_entropy, bt_soft_cross_entropy(t, t))                                                              \
    X(bt_cosine_similarity, bt_cosine_similarity(t, t, 0))                                                             \
    ONE(X, bt_gelu_tanh) X(bt_attention, bt_attention(t, t, t, NULL)) X(bt_sinusoidal, bt_sinusoidal(0, 0))            \
    X(bt_rotary, bt_rotary(t, 0))                                                                                      \
    ONE(X, bt_cos) ONE(X, bt_tanh) ONE(X, bt_sigmoid) ONE(X, bt_softplus) ONE(X, bt_relu) ONE(X, bt_gelu)              \
    TWO(X, bt_add) TWO(X, bt_sub) TWO(X, bt_mul) TWO(X, bt_div) TWO(X, bt_pow) TWO(X, bt_minimum) TWO(X, bt_maximum)   \
    TWO(X, bt_less) TWO(X, bt_greater) TWO(X, bt_equal)                                                                \
    X(bt_clamp, bt_clamp(t, t, 1)) X(bt_clamp, bt_clamp(t, 0, 1)) X(bt_where, bt_where(t, t, 1))                       \
    X(bt_soft_threshold, bt_soft_threshold(t, 1)) X(bt_soft_threshold, bt_soft_threshold(t, t))                        \
    X(bt_projected_condition, bt_projected_condition(p, b, NULL, 1, NULL))                                             \
    X(bt_where, bt_where(t, 0, 1))                                                                                     \
    X(bt_sum, bt_sum(t, 0)) X(bt_sum, (bt_sum)(t, NULL)) X(bt_mean, bt_mean(t)) X(bt_mean, (bt_mean)(t, NULL))         \
    X(bt_max, bt_max(t, -1, BT_KEEP)) X(bt_max, (bt_max)(t, NULL)) X(bt_argmax, bt_argmax(t, 0))                       \
    X(bt_min, bt_min(t, -1, BT_KEEP)) X(bt_min, (bt_min)(t, NULL)) X(bt_argmin, bt_argmin(t, 0))                       \
    X(bt_variance, bt_variance(t, 0)) X(bt_variance, (bt_variance)(t, NULL)) X(bt_std, bt_std(t))                      \
    X(bt_std, (bt_std)(t, NULL)) X(bt_norm, bt_norm(t)) X(bt_norm, (bt_norm)(t, NULL))                                 \
    X(bt_cast, bt_cast(t, BT_F32)) X(bt_mse, bt_mse(t, t)) X(bt_kl_div, bt_kl_div(t, t))                               \
    X(bt_sort, bt_sort(t, 0, true)) X(bt_argsort, bt_argsort(t, 0, true)) X(bt_topk, bt_topk(t, 1, 0, NULL))           \
    X(bt_take_along, bt_take_along(t, t, 0)) X(bt_cumsum, bt_cumsum(t, 0)) X(bt_one_hot, bt_one_hot(t, 2))             \
    X(bt_einsum, bt_einsum(s, t, t)) X(bt_einsum, (bt_einsum)("ij", NULL)) X(bt_einsum, bt_einsum("i", t))             \
    X(bt_reshape, bt_reshape(t, -1)) X(bt_reshape, (bt_reshape)(t, NULL)) X(bt_permute, bt_permute(t, 1, 0))           \
    X(bt_permute, (bt_permute)(t, NULL)) X(bt_squeeze, bt_squeeze(t, 0)) X(bt_unsqueeze, bt_unsqueeze(t, 0))           \
    X(bt_slice, bt_slice(t, 0, 0, 1)) X(bt_gather, bt_gather(t, t)) X(bt_at, bt_at(t, 0)) X(bt_at, (bt_at)(t, NULL))   \
    X(bt_concat, (bt_concat)(0, NULL)) X(bt_concat, bt_concat(0, t, t)) X(bt_matmul, bt_matmul(t, t))                  \
    X(bt_max_pool2d, bt_max_pool2d(t, 2, 2, 0)) X(bt_avg_pool2d, bt_avg_pool2d(t, 2, 2, 0))                            \
    X(bt_adaptive_max_pool2d, bt_adaptive_max_pool2d(t, 1, 1))                                                         \
    X(bt_adaptive_avg_pool2d, bt_adaptive_avg_pool2d(t, 1, 1)) X(bt_upsample_nearest, bt_upsample_nearest(t, 2, 2))    \
    X(bt_upsample_bilinear, bt_upsample_bilinear(t, 2, 2))                                                             \
    X(bt_softmax, bt_softmax(t, 0)) X(bt_log_softmax, bt_log_softmax(t, 0))                                            \
    X(bt_cross_entropy, bt_cross_entropy(t, t)) X(bt_cross_entropy_with, bt_cross_entropy_with(t, t, NULL))            \
    X(bt_label_count, bt_label_count(t, 0))                                                                            \
    X(bt_binary_cross_entropy, bt_binary_cross_entropy(t, t)) X(bt_accuracy, bt_accuracy(t, t)) ONE(X, bt_detach)      \
    X(bt_grad, bt_grad(t, t)) X(bt_checkpoint, bt_checkpoint(NULL, p, t))                                              \
    X(bt_checkpoint, (bt_checkpoint)(NULL, NULL, NULL)) X(bt_print, bt_print(t, s)) X(bt_check, bt_check(t, s))        \
    X(bt_peer, bt_peer(p, s)) X(bt_seed, bt_seed(p)) X(bt_data_dim, bt_data_dim(p, s, 0))                              \
    X(bt_data_has, bt_data_has(p, s)) X(bt_data_classes, bt_data_classes(p))                                           \
    X(bt_option_bool, bt_option_bool(p, s, true)) X(bt_option_int, bt_option_int(p, s, 0, 0, 1))                       \
    X(bt_option_double, bt_option_double(p, s, 0, 0, 1)) X(bt_option_text, bt_option_text(p, s, s))                    \
    X(bt_prediction, bt_prediction(p, s, t)) X(bt_loss_count, bt_loss_count(p, t))                                     \
    X(bt_histogram, bt_histogram(p, s, t))                                                                             \
    X(bt_loss_count_, bt_loss_count_(p, t))                                                                            \
    X(bt_metric, bt_metric(p, s, 1.0)) X(bt_metric, bt_metric(p, s, t)) X(bt_step, bt_step(p))                         \
    X(bt_inner_step, bt_inner_step(p))                                                                                 \
    X(bt_metric_number_, bt_metric_number_(p, "x", 1)) X(bt_metric_tensor_, bt_metric_tensor_(p, "x", t))              \
    X(bt_metric_use_number_, bt_metric_use_number_(p, s, 1, BT_METRIC_ONCE))                                           \
    X(bt_metric_use_tensor_, bt_metric_use_tensor_(p, s, t, BT_METRIC_MEAN))                                           \
    X(bt_host_scalar, bt_host_scalar(p, s, NULL)) X(bt_static_int, bt_static_int(p, s, NULL))                          \
    X(bt_host_step, bt_host_step(p)) X(bt_host_epoch, bt_host_epoch(p)) X(bt_eval, bt_eval(p, NULL, b, none))          \
    X(bt_hypergradient, bt_hypergradient(p, none)) X(bt_valid_batch, bt_valid_batch(p, 0))                             \
    X(bt_adapt, bt_adapt(p, b, 1)) X(bt_restore, bt_restore(p))                                                        \
    X(bt_engine_load, bt_engine_load(e, s)) X(bt_engine_use, bt_engine_use(e, NULL, NULL))                             \
    X(bt_engine_set, bt_engine_set(e, s, s, 0)) X(bt_engine_set, bt_engine_set(e, "engine.seed", "%d", 1))             \
    X(bt_engine_run, bt_engine_run(e)) X(bt_engine_print, bt_engine_print(e, BT_PLAN, NULL))                           \
    X(bt_engine_save, bt_engine_save(e, s)) X(bt_engine_resume, bt_engine_resume(e, "x"))                              \
    X(bt_engine_run_to, bt_engine_run_to(e, 1)) X(bt_engine_step, bt_engine_step(e))                                   \
    X(bt_engine_check, bt_engine_check(e, s, 0)) X(bt_engine_memory, bt_engine_memory(e))                              \
    X(bt_loader_for, bt_loader_for(p, d, 0, 1)) X(bt_sample_text, bt_sample_text(p, NULL, NULL, 1, NULL))              \
    X(bt_engine_log, bt_engine_log(e, NULL, NULL)) X(bt_engine_read, bt_engine_read(e, s, none))                       \
    X(bt_engine_write, bt_engine_write(e, s, none)) X(bt_engine_name, bt_engine_name(e, 0, NULL))                      \
    X(bt_set_dependency, bt_set_dependency(p, "a", NULL))                                                              \
    X(bt_state, bt_state(p, "x", NULL, 1))                                                                             \
    X(bt_engine_problem, bt_engine_problem(e, s))                                                                      \
    X(bt_function_new, bt_function_new(NULL, NULL, BT_TRAIN)) X(bt_function_run, bt_function_run(f, b, none))          \
    X(bt_module_add, bt_module_add(m, m, s, 0))                                                                        \
    X(bt_module_add_param, (bt_module_add_param)(m, s, bt_init_constant(0), NULL))                                     \
    X(bt_module_add_buffer, (bt_module_add_buffer)(m, s, bt_init_constant(0), NULL)) X(bt_child, bt_child(m, s, 0))    \
    X(bt_child, bt_child(m, "x")) X(bt_param, bt_param(m, s, 0)) X(bt_param, bt_param(p, "x"))                         \
    X(bt_params, bt_params(m))                                                                                         \
    X(bt_param_set, bt_param_set(m, s, t)) X(bt_forward, bt_forward(m, t)) X(bt_forward, bt_forward(p, t))             \
    X(bt_forward_module_, bt_forward_module_(m, NULL)) X(bt_forward_problem_, bt_forward_problem_(p, NULL))            \
    X(bt_module_init, bt_module_init(m, BT_CPU, BT_F32, 1)) X(bt_hyper, bt_hyper(r, s))                                \
    X(bt_hyper_set, bt_hyper_set(r, s, t))                                                                             \
    X(bt_slot, bt_slot(r, s)) X(bt_slot_set, bt_slot_set(r, s, t)) X(bt_hvp, bt_hvp(r, t))                             \
    X(bt_lower_gradient, bt_lower_gradient(r, t)) X(bt_upper_gradient, bt_upper_gradient(r, t))                        \
    X(bt_slope, bt_slope(r)) X(bt_iteration, bt_iteration(r)) X(bt_unit, bt_unit(r))                                   \
    X(bt_last_solution, bt_last_solution(r))                                                                           \
    X(bt_optimizer_new, bt_optimizer_new(s)) X(bt_optimizer_set, bt_optimizer_set(o, s, 0))                            \
    X(bt_optimizer_minimize, bt_optimizer_minimize(o, t, m)) X(bt_dataset_open, bt_dataset_open(s, s))                 \
    X(bt_dataset_part, bt_dataset_part(d, 0, 1, 1)) X(bt_dataset_per_class, bt_dataset_per_class(d, 0, 1, 1))          \
    X(bt_dataset_drop, bt_dataset_drop(d, s)) X(bt_dataset_rows, bt_dataset_rows(d, 0, 1))                             \
    X(bt_dataset_label, bt_dataset_label(d, s)) X(bt_dataset_standardize, bt_dataset_standardize(d, s, d))             \
    X(bt_dataset_images, bt_dataset_images(s, s, NULL))                                                                \
    X(bt_dataset_random_resized_crop, bt_dataset_random_resized_crop(d, 0.5, 1))                                       \
    X(bt_dataset_number_label, bt_dataset_number_label(d, d)) X(bt_dataset_classes, bt_dataset_classes(d))             \
    X(bt_dataset_class_name, bt_dataset_class_name(d, 0)) X(bt_field_matmul, bt_field_matmul(b, s, t))                 \
    X(bt_dataset_long_tail, bt_dataset_long_tail(d, 1, 1)) X(bt_dataset_label_noise, bt_dataset_label_noise(d, 0, 1))  \
    X(bt_dataset_join, bt_dataset_join(d, s, d)) X(bt_dataset_new, bt_dataset_new(-1))                                 \
    X(bt_dataset_tasks, bt_dataset_tasks(d, 2, 1, 1, 1)) X(bt_dataset_rotations, bt_dataset_rotations(d))              \
    X(bt_dataset_add, bt_dataset_add(d, s, none)) X(bt_field, bt_field(b, s, 0)) X(bt_batch_count, bt_batch_count(b))  \
    X(bt_batch_set, bt_batch_set(b, s, none)) X(bt_loader_new, bt_loader_new(d, 0, 1))                                 \
    X(bt_loader_next, bt_loader_next(l, &batch)) X(bt_loader_next, bt_loader_next(l, NULL))                            \
    X(bt_conv2d, bt_conv2d(t, t, t, NULL)) X(bt_conv1d, bt_conv1d(t, t, t, NULL))                                      \
    X(bt_module_load, bt_module_load(m, s, NULL, NULL)) X(bt_module_export, bt_module_export(m, s, NULL, 0))           \
    X(bt_module_set_init, bt_module_set_init(m, s, bt_init_constant(0)))                                               \
    X(bt_dataset_crop, bt_dataset_crop(d, 1, 1)) X(bt_dataset_flip, bt_dataset_flip(d, 1))                             \
    X(bt_dataset_normalize, bt_dataset_normalize(d, none, none)) X(bt_dataset_cutout, bt_dataset_cutout(d, 1, 1))      \
    X(bt_dataset_mixup, bt_dataset_mixup(d, 1, 1)) X(bt_tokenizer_open, bt_tokenizer_open(s))                          \
    X(bt_tokenizer_characters, bt_tokenizer_characters(s, 0)) X(bt_tokenizer_words, bt_tokenizer_words(s, 0, 1))       \
    X(bt_tokenizer_encode, bt_tokenizer_encode(k, s, 0, true, NULL, 0))                                                \
    X(bt_tokenizer_decode, bt_tokenizer_decode(k, NULL, 0, true, NULL, 0))                                             \
    X(bt_tokenizer_for, bt_tokenizer_for(s, s)) X(bt_text_sources, bt_text_sources(s))                                 \
    X(bt_dataset_windows, bt_dataset_windows(s, k, 1, 1, 0, 1)) X(bt_dataset_texts, bt_dataset_texts(s, s, k, 1))      \
    X(bt_infer_same, bt_infer_same(NULL, NULL, NULL)) X(bt_apply, (bt_apply)(NULL, NULL, NULL))                        \
    X(bt_apply, bt_apply(NULL, NULL, t))
/* clang-format on */

enum {
#define COUNT_ONE(name, call) +1
    SILENT_COUNT = 0 SILENT(COUNT_ONE),
    TOLD_COUNT = 0 TOLD(COUNT_ONE)
};

static const char *const names[] = {
#define NAME(name, call) #name,
    SILENT(NAME) TOLD(NAME)};

static void call(int which)
{
    int at = 0;
#define CALL(name, call)                                                                                               \
    if (at++ == which) {                                                                                               \
        (void)(call);                                                                                                  \
        return;                                                                                                        \
    }
    SILENT(CALL)
    TOLD(CALL)
}

START_TEST(on_the_host)
{
    for (int i = 0; i < SILENT_COUNT + TOLD_COUNT; i++) {
        bt_error_clear();
        call(i);
        if (i >= SILENT_COUNT)
            ck_assert_msg(*bt_error() != 0, "%s: NULL is not explained", names[i]);
    }
    bt_error_clear();
}
END_TEST

static bt_tensor *traced(void *user, const bt_batch *unused)
{
    (void)unused;
    call(*(int *)user);
    return bt_constant(BT_ARRAY(&(double){1}));
}

/* While tracing, errors surface when the trace is run. */
START_TEST(in_a_trace)
{
    for (int i = 0; i < SILENT_COUNT + TOLD_COUNT; i++) {
        double result;
        bt_error_clear();
        bt_function *function = bt_function_new(traced, &i, BT_TRAIN);
        bt_status status = bt_function_run(function, NULL, BT_ARRAY(&result));
        if (i >= SILENT_COUNT)
            ck_assert_msg(status != BT_OK && *bt_error(), "%s: NULL in a trace goes by", names[i]);
        bt_function_free(function);
    }
    bt_error_clear();
}
END_TEST

/* ---- valid objects together with NULL ---- */

static bt_tensor *half(void *user, const bt_batch *unused)
{
    (void)unused;
    bt_tensor *x = bt_constant(BT_ARRAY(((double[]){1, 2}), 2));
    switch (*(int *)user) {
    case 0:
        return bt_add(x, t);
    case 1:
        return bt_mul(t, x);
    case 2:
        return bt_where(x, t, x);
    case 3:
        return bt_matmul(x, t);
    case 4:
        return bt_gather(x, t);
    case 5:
        return bt_concat(0, x, t, x); /* the list ends at the NULL */
    case 6:
        return bt_grad(bt_sum(x), t);
    case 7:
        return bt_cross_entropy(x, t);
    case 8:
        return bt_accuracy(t, x);
    case 9:
        return bt_child((bt_module *)NULL, "x") ? x : NULL;
    default:
        return NULL;
    }
}

START_TEST(beside_something)
{
    for (int i = 0; i <= 10; i++) {
        double result[2];
        bt_error_clear();
        bt_function *function = bt_function_new(half, &i, BT_TRAIN);
        bt_status status = bt_function_run(function, NULL, BT_ARRAY(result, 2));
        ck_assert_msg((status == BT_OK) == (i == 5), "case %d: %s", i, bt_error());
        bt_function_free(function);
    }
    bt_error_clear();
}
END_TEST

START_TEST(engines_and_null)
{
    bt_engine *engine = bt_engine_new();
    ck_assert_int_ne(bt_engine_load(engine, NULL), BT_OK);
    ck_assert_int_ne(bt_engine_use(engine, NULL, NULL), BT_OK);
    ck_assert_int_ne(bt_engine_set(engine, NULL, s, 0), BT_OK);
    ck_assert_ptr_null(bt_engine_problem(engine, NULL));
    ck_assert(bt_engine_metric(engine, NULL) != bt_engine_metric(engine, NULL));
    ck_assert_int_ne(bt_engine_print(engine, BT_PLAN, NULL), BT_OK);
    ck_assert_int_ne(bt_engine_run(engine), BT_OK);
    bt_engine_free(engine);
    bt_error_clear();
    engine = bt_engine_new();
    ck_assert_int_ne(bt_engine_set(engine, "engine.seed", s, 0), BT_OK);
    bt_engine_free(engine);
    bt_error_clear();
}
END_TEST

/* ---- the list is complete ---- */

static bool listed(const char *name, size_t length)
{
    for (int i = 0; i < SILENT_COUNT + TOLD_COUNT; i++)
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
            return true;
    return false;
}

/* Every `bt_name(` and `(bt_name)(` of a header. */
static void look_through(const char *text, const char *header)
{
    for (const char *at = text; (at = strstr(at, "bt_")) != NULL;) {
        size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
        const char *end = at + length;
        bool starts = at == text || !strchr("abcdefghijklmnopqrstuvwxyz_", at[-1]);
        bool type = length > 3 && strncmp(end - 3, "_fn", 3) == 0;
        if (starts && !type && (*end == '(' || (end[0] == ')' && end[1] == '(')))
            ck_assert_msg(listed(at, length), "%s: %.*s is not tried with NULL", header, (int)length, at);
        at = end;
    }
}

START_TEST(every_function)
{
    static const char *const headers[] = {"base", "tensor", "nn",      "optim",  "data",
                                          "text", "op",     "problem", "engine", "function"};
    static char text[1 << 17];
    const char *folder = getenv("BT_SOURCE_DIR");
    for (int i = 0; folder && i < 10; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/libbetty/include/betty/%s.h", folder, headers[i]);
        FILE *file = fopen(path, "r");
        ck_assert_msg(file != NULL, "%s cannot be read", path);
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
        look_through(text, path);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("null");
    TCase *tests = tcase_create("every function");
    tcase_add_test(tests, on_the_host);
    tcase_add_test(tests, in_a_trace);
    tcase_add_test(tests, beside_something);
    tcase_add_test(tests, engines_and_null);
    tcase_add_test(tests, every_function);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
