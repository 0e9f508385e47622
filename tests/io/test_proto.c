/* tests/io/test_proto.c: fields of protocol buffers. Golden values: the bytes that Python's protobuf 7.36 writes for a
 * message of these fields (int64 a = 1; double b = 2; float c = 3; string d = 4; bytes e = 5; a message f = 16;
 * repeated double g = 7 packed), and the examples of https://protobuf.dev/programming-guides/encoding. */
#include "io/proto.h"

#include "support/suite.h"
#include <check.h>
#include <string.h>

static bt_text text;

static void setup(void) { text = (bt_text){0}; }
static void teardown(void) { bt_text_free(&text); }

static void expect(const char *bytes, size_t size)
{
    ck_assert(!text.failed);
    ck_assert_int_eq(text.size, (int64_t)size);
    ck_assert_mem_eq(text.data, bytes, size);
    teardown();
}
#define EXPECT(bytes) expect((bytes), sizeof(bytes) - 1)

START_TEST(whole_numbers)
{
    bt_proto_whole(&text, 1, 150); /* the guide's first example */
    EXPECT("\x08\x96\x01");
    bt_proto_whole(&text, 1, 0);
    EXPECT("\x08\x00");
    bt_proto_whole(&text, 1, 127);
    bt_proto_whole(&text, 1, 128);
    EXPECT("\x08\x7f\x08\x80\x01");
    bt_proto_whole(&text, 1, -2); /* ten bytes */
    EXPECT("\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    bt_proto_whole(&text, 20, INT64_MAX);
    EXPECT("\xa0\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
}
END_TEST

START_TEST(real_numbers)
{
    const double both[] = {1, -0.5};
    bt_proto_double(&text, 2, -1.5);
    EXPECT("\x11\x00\x00\x00\x00\x00\x00\xf8\xbf");
    bt_proto_float(&text, 3, 0.1F);
    EXPECT("\x1d\xcd\xcc\xcc\x3d");
    bt_proto_doubles(&text, 7, both, 2);
    EXPECT("\x3a\x10\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\xe0\xbf");
}
END_TEST

START_TEST(what_has_a_length)
{
    bt_text inner = {0};
    bt_proto_text(&text, 2, "testing"); /* the guide's */
    EXPECT("\x12\x07testing");
    bt_proto_bytes(&text, 5, "a\0b", 3);
    EXPECT("\x2a\x03"
           "a\0b");
    bt_proto_whole(&inner, 1, 150);
    bt_proto_message(&text, 16, &inner);
    ck_assert(!inner.data && !inner.size);
    EXPECT("\x82\x01\x03\x08\x96\x01");
    bt_proto_message(&text, 3, &inner); /* empty */
    EXPECT("\x1a\x00");
    bt_proto_head(&text, 7, 300);
    EXPECT("\x3a\xac\x02");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proto");
    TCase *cases = tcase_create("fields");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, whole_numbers);
    tcase_add_test(cases, real_numbers);
    tcase_add_test(cases, what_has_a_length);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
