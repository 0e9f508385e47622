/* runtime/backend.h: what a backend offers: kernels, conversions on the host, and its device. */
#ifndef BT_BACKEND_H
#define BT_BACKEND_H

#include "compile/kernels.h"
#include "runtime/card.h"
#include "runtime/device.h"

/* On the host, for numbers at any address that do not overlap; bitwise the same for every instruction set. */
typedef struct bt_conversions {
    void (*pixels_to_f32)(int64_t count, const uint8_t *from, float *to);  /* x/255, the nearest f32 */
    void (*pixels_to_f64)(int64_t count, const uint8_t *from, double *to); /* x/255, the nearest f64 */
    void (*floats_to_f64)(int64_t count, const uint8_t *from, double *to); /* x/255, the nearest f32, as f64 */
    void (*f32_to_f64)(int64_t count, const float *from, double *to);
    void (*f64_to_f32)(int64_t count, const double *from, float *to);
} bt_conversions;

typedef struct bt_backend {
    const char *name;
    const char *(*isa)(void); /* "x86-64-v4" */
    bt_kernel_table kernels;
    const bt_conversions *(*conversions)(void); /* for the isa */
    const bt_device_table *device;              /* its memory is far; NULL: the processor itself */
} bt_backend;

const bt_backend *bt_backend_cpu(void);
/* NULL after an error: the build has none, there is no device or no driver. */
const bt_backend *bt_backend_cuda(void);
const bt_backend *bt_backend_cuda_to_plan(void); /* its kernels without a device: for plans only */

/* If several processes of this machine have a device each, gives this one, number `here` of `beside`, the device of its
 * number. Call before asking for the backend. BT_ERROR_CONFIG: there are fewer devices. */
bt_status bt_cuda_choose(int here, int beside);
/* How many devices there are; 0 if there is none, or no driver, or the build has no CUDA. The first call asks in a
 * separate process: a process that has asked cannot go on in processes forked from it. */
int bt_cuda_devices(void);

/* Sets the card that plans are made for if there is no device: the name of a built-in description ("h100", the
 * default), or a file that contains one (runtime/card.h). Errors name the file and the field. Call before the first
 * plan, and not in a process that runs something on a device. */
bt_status bt_cuda_profile(const char *name_or_file);
const bt_card *bt_cuda_card(void); /* that card; NULL after an error: the build has no CUDA */

#endif
