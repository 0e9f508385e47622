#!/bin/bash
# A user's CUDA kernel, examples/softplus.cu, on the simulated device: compiled separately and linked by CC, as
# docs/extending.md says. Only its launch syntax is translated for that device.
. "$BT_SOURCE_DIR/tests/e2e/common.sh" || exit 1

sed -E 's/^( *)(\w+)<<<(\w+), 256, 0, (\w+)>>>\((\w+)\);/\1bt_cuda_start<\2_args>(\2, \3, bt_cuda_block(256), \5, \4);/' \
    "$examples/softplus.cu" >softplus.cpp
grep -q 'bt_cuda_start<softplus_args>(softplus, blocks' softplus.cpp || fail "the launch is not found"
"${CXX:-c++}" -std=c++20 -O1 -shared -fPIC -include fake_device.h -I "$BT_SOURCE_DIR/tests/fake_cuda" \
    -I "$BT_SOURCE_DIR/libbetty/include" -o softplus.so softplus.cpp >out 2>err || fail "it does not compile"
link="cc -Wl,--no-as-needed $PWD/softplus.so"

train() { run "$1" custom_op engine.train_iters=100 engine.log_step=20 engine.valid_step=0 "engine.device=${2:-cuda}"; }

# The processor's numbers with its own kernel; those of the body up to rounding; the same bits in any order, and without
# graphs.
train near cpu
CC=$link FAKE_CUDA_ORDER=eager BETTY_CUDA=sync train own
close own near 1e-4 || fail "other numbers than on the processor"
for order in eager lazy 1 2 3; do
    CC=$link FAKE_CUDA_ORDER=$order train again
    same_bits own again "in order $order"
done

uses() { "$BETTY_RUN" "$examples/custom_op.ini" --device cuda --info >out 2>err || fail "--info"; grep -q 'user\.cuda' out; }
CC=$link uses || fail "its kernel is not used"
! uses || fail "there is no kernel, and it is used"

# A missing library, an undefined function, an error in the .c file, an op without a kernel and a body.
CC="cc $PWD/nowhere.so" mistake "nowhere.so" "$examples/custom_op.ini" --device cuda
sed 's/ __attribute__((weak))//' "$examples/custom_op.c" >strong.c
sed 's/custom_op\.c/strong.c/' "$examples/custom_op.ini" >strong.ini
mistake "softplus_on_cuda" strong.ini --device cuda
sed 's/return BT_OK;/return BT_NO_SUCH;/' "$examples/custom_op.c" >wrong.c
sed 's/custom_op\.c/wrong.c/' "$examples/custom_op.ini" >wrong.ini
mistake "wrong.c does not compile" wrong.ini --device cuda
sed 's/\.body = softplus_body,//' "$examples/custom_op.c" >bodiless.c
sed 's/custom_op\.c/bodiless.c/' "$examples/custom_op.ini" >bodiless.ini
mistake "the cuda backend has no kernel for" bodiless.ini --device cuda
mistake "give the op one for this device and dtype, or a body" bodiless.ini --device cuda
