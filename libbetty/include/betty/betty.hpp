/* betty/betty.hpp: the macros of the other headers for C++11 and later. In C++, betty/betty.h includes it, so that
 * bt_mul(0.5, x), bt_sum(x, 0, 1) and BT_ARRAY(values, rows, 3) mean the same in both languages. */
#ifndef BETTY_HPP
#define BETTY_HPP

#include <betty/data.h>
#include <betty/nn.h>
#include <betty/op.h>
#include <betty/problem.h>
#include <betty/tensor.h>
#include <initializer_list>

namespace bt_cpp { /* used by the macros */

template <class T> struct dtype_of;
template <> struct dtype_of<float> { static const bt_dtype value = BT_F32; };
template <> struct dtype_of<double> { static const bt_dtype value = BT_F64; };
template <> struct dtype_of<int32_t> { static const bt_dtype value = BT_I32; };
template <> struct dtype_of<int64_t> { static const bt_dtype value = BT_I64; };
template <> struct dtype_of<uint8_t> { static const bt_dtype value = BT_U8; };
template <class T> bt_dtype dtype(const T *) { return dtype_of<T>::value; }
template <class T> void *data(const T *values) { return const_cast<T *>(values); }

template <unsigned count> struct sizes_list { int64_t list[count]; }; /* lives until the end of the call that uses it */
template <class... Sizes> sizes_list<sizeof...(Sizes)> sizes(Sizes... list)
{
    return sizes_list<sizeof...(Sizes)>{{static_cast<int64_t>(list)...}};
}

inline bt_tensor *operand(bt_tensor *x) { return bt_operand_tensor_(x); }
inline bt_tensor *operand(float value) { return bt_operand_number_(static_cast<double>(value)); }
inline bt_tensor *operand(double value) { return bt_operand_number_(value); }
inline bt_tensor *operand(int value) { return bt_operand_integer_(value); }
inline bt_tensor *operand(long value) { return bt_operand_integer_(value); }
inline bt_tensor *operand(long long value) { return bt_operand_integer_(value); }

inline bt_module *module(bt_module *m) { return bt_operand_module_(m); }
inline bt_module *module(bt_problem *p) { return bt_net(p); }
inline bt_tensor *forward(bt_module *m, bt_tensor *const *in) { return bt_forward_module_(m, in); }
inline bt_tensor *forward(bt_problem *p, bt_tensor *const *in) { return bt_forward_problem_(p, in); }

inline void metric(bt_problem *self, const char *name, bt_tensor *value, bt_metric_use use = BT_METRIC_ONCE)
{
    bt_metric_use_tensor_(self, name, value, use);
}
template <class Number>
void metric(bt_problem *self, const char *name, Number value, bt_metric_use use = BT_METRIC_ONCE)
{
    bt_metric_use_number_(self, name, static_cast<double>(value), use);
}

} // namespace bt_cpp

#undef BT_DTYPE_
#undef BT_DATA_
#undef BT_SIZES_
#undef BT_LIST_
#undef BT_ADD_
#undef BT_OPERAND_
#undef BT_MODULE_
#undef BT_FORWARD_
#undef BT_TENSORS_
#undef BT_MODULES_
#undef bt_metric
#define BT_DTYPE_(pointer)             bt_cpp::dtype(pointer)
#define BT_DATA_(pointer)              bt_cpp::data(pointer)
#define BT_SIZES_(...)                 bt_cpp::sizes(__VA_ARGS__).list
#define BT_LIST_(function, first, ...) (function)((first), bt_cpp::sizes(__VA_ARGS__).list)
#define BT_ADD_(function, self, name, init, ...)                                                                       \
    (function)((self), (name), (init), bt_cpp::sizes(__VA_ARGS__).list)
#define BT_OPERAND_(x)               bt_cpp::operand(x)
#define BT_MODULE_(m)                bt_cpp::module(m)
#define BT_FORWARD_(m, ...)          bt_cpp::forward((m), BT_TENSORS_(__VA_ARGS__))
#define BT_TENSORS_(...)             (std::initializer_list<bt_tensor *>{__VA_ARGS__}.begin())
#define BT_MODULES_(...)             (std::initializer_list<bt_module *>{__VA_ARGS__}.begin())
#define bt_metric(...)               bt_cpp::metric(__VA_ARGS__)

#endif
