/* backend/cpu/view.h: strided views: counting, addressing, and the views that shape ops take of them. */
#ifndef BT_CPU_VIEW_H
#define BT_CPU_VIEW_H

#include "compile/kernels.h"

int64_t bt_cpu_count(const bt_view *view);
bool bt_cpu_contiguous(const bt_view *view);                 /* its elements lie in row-major order without gaps */
int64_t bt_cpu_offset(const bt_view *view, int64_t element); /* in elements, of this element in row-major order */
char *bt_cpu_at(const bt_view *view, int64_t element);
const char *bt_cpu_matrix(const bt_view *view, int64_t number); /* start of matrix `number` along the leading axes */
double bt_cpu_get(const bt_view *view, int64_t element);
int64_t bt_cpu_get_int(const bt_view *view, int64_t element); /* of an integer or BT_BOOL view */
void bt_cpu_put(const bt_view *view, int64_t element, double value);
void bt_cpu_put_int(const bt_view *view, int64_t element, int64_t value);
bool bt_cpu_same_dtypes(const bt_call *call, int first, int last); /* of inputs first..last and output 0 */

/* Splits the view into the axes of the mask (`reduced`) and the others (`kept`); both keep the view's data. */
void bt_cpu_split(const bt_view *view, uint32_t axes, bt_view *kept, bt_view *reduced);

/* The view of its input that a moving op copies from. */
typedef bool bt_cpu_look(const bt_call *call, bt_view *look);
bt_cpu_look bt_cpu_look_same, bt_cpu_look_permute, bt_cpu_look_broadcast, bt_cpu_look_slice;

/* The part of `out` that starts at `from` along `axis` and is `size` long there. */
bt_view bt_cpu_part(const bt_view *out, int64_t axis, int64_t from, int64_t size);

#endif
