/* Numbers on the host: dtypes, arrays and their conversion, hashes, the random number generator. */
#include "base/base.h"
#include "base/half.h"
#include "base/philox.h"

#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void setup(void) { bt_error_clear(); }

START_TEST(dtypes_have_names_and_sizes)
{
    static const struct {
        bt_dtype dtype;
        const char *name;
        size_t size;
        bool floats;
    } cases[] = {{BT_F32, "f32", 4, true},   {BT_F64, "f64", 8, true}, {BT_I32, "i32", 4, false},
                 {BT_I64, "i64", 8, false},  {BT_U8, "u8", 1, false},  {BT_BOOL, "bool", 1, false},
                 {BT_BF16, "bf16", 2, true}, {BT_F16, "f16", 2, true}, {(bt_dtype)8, "unknown dtype", 0, false}};
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        ck_assert_str_eq(bt_dtype_name(cases[i].dtype), cases[i].name);
        ck_assert_uint_eq(bt_dtype_size(cases[i].dtype), cases[i].size);
        ck_assert_int_eq(bt_dtype_floats(cases[i].dtype), cases[i].floats);
    }
}
END_TEST

START_TEST(arrays_are_counted)
{
    static const struct {
        bt_array array;
        int64_t count;
        size_t bytes;
    } cases[] = {{{.dtype = BT_F64}, 1, 8},
                 {{.dtype = BT_F32, .rank = 2, .dims = {100, 784}}, 78400, 313600},
                 {{.dtype = BT_I64, .rank = 1, .dims = {0}}, 0, 0},
                 {{.dtype = BT_U8, .rank = 3, .dims = {5, 0, 7}}, 0, 0},
                 {{.dtype = BT_U8, .rank = 1, .dims = {-1}}, -1, SIZE_MAX},
                 {{.dtype = BT_U8, .rank = 2, .dims = {-1, -1}}, -1, SIZE_MAX},
                 {{.dtype = BT_U8, .rank = 2, .dims = {INT64_MAX, 2}}, -1, SIZE_MAX},
                 {{.dtype = BT_U8, .rank = 2, .dims = {(int64_t)1 << 31, (int64_t)1 << 31}},
                  (int64_t)1 << 62,
                  (size_t)1 << 62}, /* beyond 32 bits */
                 {{.dtype = BT_F64, .rank = 2, .dims = {(int64_t)1 << 31, (int64_t)1 << 31}},
                  (int64_t)1 << 62,
                  SIZE_MAX}, /* elements can be counted, bytes cannot */
                 {{.dtype = BT_U8, .rank = BT_MAX_RANK + 1, .dims = {1, 1, 1, 1, 1, 1, 1, 1}}, -1, SIZE_MAX},
                 {{.dtype = BT_U8, .rank = -1}, -1, SIZE_MAX}};
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        ck_assert_int_eq(bt_array_count(cases[i].array), cases[i].count);
        ck_assert_uint_eq(bt_array_bytes(cases[i].array), cases[i].bytes);
    }
}
END_TEST

START_TEST(arrays_of_pointers)
{
    float x[6] = {0};
    const int64_t label[2] = {0};
    double loss;
    uint8_t bytes[1];
    bt_array array = BT_ARRAY(x, 2, 3);
    ck_assert(array.dtype == BT_F32 && array.rank == 2 && array.dims[0] == 2 && array.dims[1] == 3 && array.data == x);
    array = BT_ARRAY(label, 2);
    ck_assert(array.dtype == BT_I64 && array.rank == 1 && array.dims[0] == 2 && (const void *)array.data == label);
    array = BT_ARRAY(&loss);
    ck_assert(array.dtype == BT_F64 && array.rank == 0 && array.data == &loss);
    array = BT_ARRAY(bytes, 1);
    ck_assert(array.dtype == BT_U8 && array.rank == 1);
    array = bt_array_of(BT_I32, NULL, NULL);
    ck_assert(array.rank == 0 && array.data == NULL);
    array = bt_array_of(BT_I32, NULL, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, BT_END});
    ck_assert_int_eq(array.rank, -1); /* ten sizes: refused with a message */
    ck_assert_int_eq(bt_error_status(), BT_ERROR_SHAPE);
    bt_error_clear();
}
END_TEST

START_TEST(shapes_as_text)
{
    char buffer[256];
    ck_assert_str_eq(bt_shape_text(buffer, 0, NULL), "[]");
    ck_assert_str_eq(bt_shape_text(buffer, 1, (const int64_t[]){7}), "[7]");
    ck_assert_str_eq(bt_shape_text(buffer, 2, (const int64_t[]){100, 784}), "[100, 784]");
    int64_t largest[BT_MAX_RANK];
    for (int i = 0; i < BT_MAX_RANK; i++)
        largest[i] = INT64_MIN;
    ck_assert_uint_eq(strlen(bt_shape_text(buffer, BT_MAX_RANK, largest)), 2 + 8 * 20 + 7 * 2);
}
END_TEST

/* A value that the destination cannot hold becomes the nearest one that it can; NaN becomes 0. */
START_TEST(conversion_is_bounded)
{
    static const struct {
        double value, i32, i64, u8, truth;
    } cases[] = {{0, 0, 0, 0, 0},
                 {-0.0, 0, 0, 0, 0},
                 {1.9, 1, 1, 1, 1},
                 {-1.9, -1, -1, 0, 1},
                 {254.999, 254, 254, 254, 1},
                 {256, 256, 256, 255, 1},
                 {2147483646.5, 2147483646, 2147483646, 255, 1},
                 {2147483648.0, 2147483647, 2147483648.0, 255, 1},
                 {-2147483649.0, -2147483648.0, -2147483649.0, 0, 1},
                 {1e300, 2147483647, 0x1.fffffffffffffp62, 255, 1},
                 {-1e300, -2147483648.0, -0x1p63, 0, 1},
                 {INFINITY, 2147483647, 0x1.fffffffffffffp62, 255, 1},
                 {-INFINITY, -2147483648.0, -0x1p63, 0, 1},
                 {NAN, 0, 0, 0, 1}};
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        _Alignas(8) char room[16];
        static const bt_dtype dtypes[] = {BT_I32, BT_I64, BT_U8, BT_BOOL};
        const double expected[] = {cases[i].i32, cases[i].i64, cases[i].u8, cases[i].truth};
        for (int d = 0; d < BT_COUNT_OF(dtypes); d++) {
            memset(room, 0x55, sizeof room);
            bt_put(dtypes[d], room, 1, cases[i].value);
            ck_assert_msg(bt_get(dtypes[d], room, 1) == expected[d], "%g as %s: %.17g, expected %.17g", cases[i].value,
                          bt_dtype_name(dtypes[d]), bt_get(dtypes[d], room, 1), expected[d]);
            ck_assert_int_eq(room[0], 0x55); /* the neighbour */
        }
    }
    float single[2] = {0, 7};
    bt_put(BT_F32, single, 0, 0.1);
    ck_assert_float_eq(single[0], 0.1F);
    ck_assert_float_eq(single[1], 7);
    bt_put(BT_F32, single, 0, 1e300);
    ck_assert(isinf(single[0]));
    double wide[1];
    bt_put(BT_F64, wide, 0, 0.1);
    ck_assert_double_eq(wide[0], 0.1);
    ck_assert_double_eq(bt_get((bt_dtype)77, wide, 0), 0);
}
END_TEST

/* A 16-bit number as IEEE 754 defines it: sign, exponent, fraction; the successor of the largest is infinite. */
static double of_half(uint16_t bits, int fraction_bits)
{
    int exponent = bits % 0x8000 >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
    int bias = (1 << (14 - fraction_bits)) - 1, last = (1 << (15 - fraction_bits)) - 1;
    double size = exponent == last ? (fraction ? (double)NAN : (double)INFINITY)
                  : exponent       ? ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits)
                                   : ldexp(fraction, 1 - bias - fraction_bits);
    return bits >> 15 ? -size : size;
}

static uint16_t put(bt_dtype dtype, double x)
{
    uint16_t bits;
    bt_put(dtype, &bits, 0, x);
    return bits;
}

/* As a double and, if it is exact in f32, also from f32. */
static void assert_rounds(bt_dtype dtype, double x, uint16_t due)
{
    float single = (float)x;
    uint16_t other = dtype == BT_BF16 ? bt_bf16_of(single) : bt_f16_of(single), found = put(dtype, x);
    ck_assert_msg(found == due, "%s of %.17g is %04x, not %04x", bt_dtype_name(dtype), x, found, due);
    ck_assert_msg((double)single != x || other == due, "%s of the f32 %.9g is %04x, not %04x", bt_dtype_name(dtype), x,
                  other, due);
}

/* All bit patterns: read, written back, and also the midpoint to the next number, and points slightly to either
 * side. */
START_TEST(numbers_of_16_bits)
{
    const bt_dtype dtype = _i ? BT_F16 : BT_BF16;
    const int fraction_bits = _i ? 10 : 7;
    for (int pattern = 0; pattern < 65536; pattern++) {
        const uint16_t bits = (uint16_t)pattern, sign = bits & 0x8000;
        const double x = of_half(bits, fraction_bits), found = bt_get(dtype, &bits, 0);
        if (isnan(x)) {
            const uint16_t again = put(dtype, found);
            ck_assert_msg(isnan(found) && isnan(of_half(again, fraction_bits)) && (again & 0x8000) == sign,
                          "%04x: %g, %04x", bits, found, again);
            continue;
        }
        ck_assert_msg(found == x && !signbit(found) == !sign, "%04x: %.17g, not %.17g", bits, found, x);
        assert_rounds(dtype, x, bits);
        if (isinf(x))
            continue;
        const uint16_t after = (uint16_t)(bits + 1);
        double next = of_half(after, fraction_bits);
        next = isinf(next) ? copysign(_i ? 65536 : 0x1p128, x) : next;
        const double middle = (x + next) / 2, far = copysign((double)INFINITY, x);
        assert_rounds(dtype, middle, bits & 1 ? after : bits);
        assert_rounds(dtype, nextafter(middle, 0), bits);
        assert_rounds(dtype, nextafter(middle, far), after);
        assert_rounds(dtype, (double)nextafterf((float)middle, 0), bits);
        assert_rounds(dtype, (double)nextafterf((float)middle, (float)far), after);
    }
    assert_rounds(dtype, 1e300, _i ? 0x7c00 : 0x7f80);
    assert_rounds(dtype, -1e-300, 0x8000);
}
END_TEST

START_TEST(known_numbers_of_16_bits)
{
    static const struct {
        double x;
        uint16_t f16, bf16;
    } cases[] = {{0.1, 0x2e66, 0x3dcd},   {1.0 / 3, 0x3555, 0x3eab}, {65504, 0x7bff, 0x4780},
                 {65519, 0x7bff, 0x4780}, {65520, 0x7c00, 0x4780},   {6e-8, 0x0001, 0x3381},
                 {2049, 0x6800, 0x4500},  {1e-5, 0x00a8, 0x3728},    {0x1p-25, 0x0000, 0x3300}};
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        assert_rounds(BT_F16, cases[i].x, cases[i].f16);
        assert_rounds(BT_BF16, cases[i].x, cases[i].bf16);
        ck_assert(bt_dtype_round(BT_F16, cases[i].x) <= of_half(cases[i].f16, 10));
    }
}
END_TEST

START_TEST(arrays_are_converted)
{
    float from[4] = {1, -2.5F, 300, 0};
    int32_t to[4];
    uint8_t bytes[4];
    double wide[4];
    ck_assert_int_eq(bt_array_convert(BT_ARRAY(to, 2, 2), BT_ARRAY(from, 4)), BT_OK); /* equal counts are enough */
    ck_assert(to[0] == 1 && to[1] == -2 && to[2] == 300 && to[3] == 0);
    ck_assert_int_eq(bt_array_convert(BT_ARRAY(bytes, 4), BT_ARRAY(from, 4)), BT_OK);
    ck_assert(bytes[0] == 1 && bytes[1] == 0 && bytes[2] == 255 && bytes[3] == 0);
    ck_assert_int_eq(bt_array_convert(BT_ARRAY(wide, 4), BT_ARRAY(bytes, 4)), BT_OK);
    ck_assert(wide[0] == 1 && wide[1] == 0 && wide[2] == 255 && wide[3] == 0);
    int64_t large[1] = {INT64_C(9007199254740993)}, copy[1]; /* 2^53 + 1: same dtype, not converted through double */
    ck_assert_int_eq(bt_array_convert(BT_ARRAY(copy, 1), BT_ARRAY(large, 1)), BT_OK);
    ck_assert_int_eq(copy[0], large[0]);
    ck_assert_int_eq(bt_array_convert(BT_ARRAY(&wide[0]), BT_ARRAY(&from[2])), BT_OK);
    ck_assert_double_eq(wide[0], 300);
}
END_TEST

START_TEST(arrays_that_do_not_fit)
{
    float from[6] = {0};
    double to[4] = {9, 9, 9, 9};
    ck_assert_int_eq(bt_array_convert(BT_ARRAY(to, 4), BT_ARRAY(from, 2, 3)), BT_ERROR_SHAPE);
    ck_assert_str_eq(bt_error(), "an array of shape [2, 3] cannot be written into one of shape [4]");
    ck_assert_double_eq(to[0], 9);
    bt_error_clear();
    bt_array nothing = {.dtype = BT_F64, .rank = 1, .dims = {4}};
    ck_assert_int_eq(bt_array_convert(nothing, BT_ARRAY(to, 4)), BT_ERROR_SHAPE);
    ck_assert_int_eq(bt_array_convert(BT_ARRAY(to, 4), nothing), BT_ERROR_SHAPE);
    bt_array negative = {.dtype = BT_F64, .rank = 1, .dims = {-4}, .data = to};
    ck_assert_int_eq(bt_array_convert(negative, negative), BT_ERROR_SHAPE);
    bt_error_clear();
    bt_array empty = {.dtype = BT_F64, .rank = 1}, empty_too = {.dtype = BT_F32, .rank = 2, .dims = {0, 3}};
    ck_assert_int_eq(bt_array_convert(empty, empty), BT_OK);
    ck_assert_int_eq(bt_array_convert(empty, empty_too), BT_OK);
    ck_assert_str_eq(bt_error(), "");
}
END_TEST

/* ---- hashes ---- */

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Every text with one flipped bit, of every length up to 40, with several seeds: all hashes differ. */
START_TEST(hashes_differ)
{
    enum { MOST = 30000 };
    static uint64_t hashes[MOST];
    int count = 0;
    unsigned char bytes[40];
    for (size_t size = 0; size <= sizeof bytes; size++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            memset(bytes, 0, sizeof bytes);
            hashes[count++] = bt_hash(seed, bytes, size);
            for (size_t bit = 0; bit < 8 * size; bit++) {
                bytes[bit / 8] = (unsigned char)(1 << bit % 8);
                hashes[count++] = bt_hash(seed, bytes, size);
                bytes[bit / 8] = 0;
            }
            ck_assert_int_le(count, MOST);
        }
    qsort(hashes, (size_t)count, sizeof *hashes, compare);
    int equal = 0;
    for (int i = 1; i < count; i++)
        equal += hashes[i] == hashes[i - 1];
    ck_assert_int_eq(equal, 0);
}
END_TEST

/* The low bits are used as table indices: consecutive numbers fill 256 places evenly (chi squared, 255 degrees: 99.999
 * % are below 363). */
START_TEST(hashes_spread)
{
    int places[256] = {0};
    double chi = 0;
    for (uint64_t i = 0; i < 25600; i++)
        places[bt_hash(1, &i, sizeof i) & 255]++;
    for (int i = 0; i < 256; i++)
        chi += (places[i] - 100) * (places[i] - 100) / 100.0;
    ck_assert_double_lt(chi, 363);
}
END_TEST

START_TEST(hashes_are_of_the_bytes)
{
    char a[] = "xclassifier.layer2", b[] = "xxclassifier.layer2"; /* at another address, with another alignment */
    ck_assert_uint_eq(bt_hash(5, a + 1, 17), bt_hash(5, b + 2, 17));
    ck_assert_uint_eq(bt_hash_text(5, a + 1), bt_hash(5, b + 2, 17));
    ck_assert_uint_eq(bt_hash(5, NULL, 0), bt_hash(5, a, 0));
    ck_assert(bt_hash_text(5, "") != bt_hash_text(6, ""));
    ck_assert(bt_hash_text(5, NULL) != bt_hash_text(6, NULL));
    ck_assert(bt_hash(bt_hash_text(0, "ab"), "c", 1) != bt_hash(bt_hash_text(0, "a"), "bc", 2));
}
END_TEST

/* ---- random numbers ---- */

/* Known answers of Philox4x32-10, published by its authors with their code (kat_vectors of Random123). */
START_TEST(philox_known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        bt_philox counter;
        memcpy(counter.word, cases[i].counter, sizeof counter.word);
        bt_philox word = bt_philox4x32(counter, cases[i].key[0], cases[i].key[1]);
        ck_assert_mem_eq(word.word, cases[i].expected, sizeof word.word);
    }
}
END_TEST

START_TEST(uniform_numbers_of_the_host)
{
    /* Seed, stream and element 0: the first two words of the first known answer, 53 bits of them. */
    double expected = (double)(UINT64_C(0x6627e8d5e169c58d) >> 11) / 9007199254740992.0, sum = 0, squares = 0;
    bool within = true;
    ck_assert_double_eq(bt_host_uniform(0, 0, 0), expected);
    for (uint64_t e = 0; e < 100000; e++) {
        double x = bt_host_uniform(7, UINT64_C(1) << 40, e);
        within &= x >= 0 && x < 1;
        sum += x;
        squares += x * x;
    }
    ck_assert(within);
    ck_assert_double_eq_tol(sum / 100000, 0.5, 0.005); /* 5.5 deviations */
    ck_assert_double_eq_tol(squares / 100000, 1 / 3.0, 0.005);
    ck_assert_double_eq(bt_host_uniform(7, 3, 5), bt_host_uniform(7, 3, 5));
    ck_assert(bt_host_uniform(7, 3, 5) != bt_host_uniform(8, 3, 5));
    ck_assert(bt_host_uniform(7, 3, 5) != bt_host_uniform(7, 4, 5));
    ck_assert(bt_host_uniform(7, 3, 5) != bt_host_uniform(7, 3, 6));
    ck_assert(bt_host_uniform(7, 3, 5) != bt_host_uniform(7, 3, 5 + (UINT64_C(1) << 32)));
    ck_assert(bt_host_uniform(7, 3, 5) != bt_host_uniform(7 + (UINT64_C(1) << 32), 3, 5));
    ck_assert_double_eq(bt_philox_f64(UINT32_MAX, UINT32_MAX), 1 - 0x1p-53);
    ck_assert_float_eq(bt_philox_f32(UINT32_MAX), 1 - 0x1p-24F);
    ck_assert_float_eq(bt_philox_f32(0), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("numbers");
    TCase *tests = tcase_create("numbers");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, dtypes_have_names_and_sizes);
    tcase_add_test(tests, arrays_are_counted);
    tcase_add_test(tests, arrays_of_pointers);
    tcase_add_test(tests, shapes_as_text);
    tcase_add_test(tests, conversion_is_bounded);
    tcase_add_loop_test(tests, numbers_of_16_bits, 0, 2);
    tcase_add_test(tests, known_numbers_of_16_bits);
    tcase_add_test(tests, arrays_are_converted);
    tcase_add_test(tests, arrays_that_do_not_fit);
    tcase_add_test(tests, hashes_differ);
    tcase_add_test(tests, hashes_spread);
    tcase_add_test(tests, hashes_are_of_the_bytes);
    tcase_add_test(tests, philox_known_answers);
    tcase_add_test(tests, uniform_numbers_of_the_host);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
