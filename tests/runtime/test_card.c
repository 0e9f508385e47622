/* tests/runtime/test_card.c: GPU descriptions: what is read, and an error for each missing or wrong field. */
#include "runtime/card.h"

#include "support/suite.h"
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char path[] = "/libbetty/backend/cuda/profiles/h100.json";

static json_t *h100(void)
{
    char file[4096];
    snprintf(file, sizeof file, "%s%s", getenv("BT_SOURCE_DIR") ? getenv("BT_SOURCE_DIR") : ".", path);
    json_t *card = json_load_file(file, 0, NULL);
    ck_assert_ptr_nonnull(card);
    return card;
}

static bt_status parse(const json_t *json, bt_card *card)
{
    char *text = json_dumps(json, 0);
    const bt_status status = bt_card_parse("some.json", text, strlen(text), card);
    free(text);
    return status;
}

START_TEST(read)
{
    char file[4096];
    bt_card card = {0};
    snprintf(file, sizeof file, "%s%s", getenv("BT_SOURCE_DIR") ? getenv("BT_SOURCE_DIR") : ".", path);
    ck_assert_msg(bt_card_read(file, &card) == BT_OK, "%s", bt_error());
    ck_assert_str_eq(card.name, "NVIDIA H100 80GB HBM3");
    ck_assert_int_eq(card.memory, 85017493504);
    ck_assert_int_eq(card.processors, 132);
    ck_assert_int_eq(card.capability, 900);
    ck_assert_ptr_nonnull(strstr(card.text, "\"maxBlockSize\":[1024,1024,64]"));
    ck_assert_ptr_null(strstr(card.text, "origin")); /* lines that cuDNN does not know are not passed to it */
    bt_card_free(&card);
    ck_assert_ptr_null(card.text);
}
END_TEST

START_TEST(each_field_is_needed)
{
    json_t *card = h100();
    const char *key;
    json_t *value;
    int fields = 0;
    json_object_foreach(card, key, value)
    {
        char wanted[128];
        bt_card made = {0};
        json_t *without = json_copy(card);
        json_object_del(without, key);
        if (strcmp(key, "origin") == 0) {
            ck_assert_int_eq(parse(without, &made), BT_OK);
            bt_card_free(&made);
        } else {
            snprintf(wanted, sizeof wanted, "device profile some.json: \"%s\" is missing; expected ", key);
            ck_assert_int_eq(parse(without, &made), BT_ERROR_DATA);
            ck_assert_msg(strncmp(bt_error(), wanted, strlen(wanted)) == 0, "%s", bt_error());
            ck_assert_ptr_null(made.text);
            bt_error_clear();
            fields++;
        }
        json_decref(without);
    }
    ck_assert_int_eq(fields, 23);
    json_decref(card);
}
END_TEST

START_TEST(wrong_ones)
{
    static const char *const wrong[][3] = {
        {"multiProcessorCount", "0", "\"multiProcessorCount\" is 0; expected a number of 1 to 65535"},
        {"multiProcessorCount", "65536", "\"multiProcessorCount\" is 65536; expected a number of 1 to 65535"},
        {"multiProcessorCount", "132.0", "\"multiProcessorCount\" is 132.0; expected a number of 1 to 65535"},
        {"warpSize", "\"32\"", "\"warpSize\" is \"32\"; expected a number of 32 to 32"},
        {"maxGridSize", "[1,2]", "\"maxGridSize\" is [1,2]; expected three numbers of 1 to 2147483647"},
        {"maxGridSize", "[1,2,0]", "\"maxGridSize\" is [1,2,0]; expected three numbers of 1 to 2147483647"},
        {"maxGridSize", "7", "\"maxGridSize\" is 7; expected three numbers of 1 to 2147483647"},
        {"deviceName", "\"\"", "\"deviceName\" is \"\"; expected a text of 1 to 127 bytes"},
        {"deviceName", "4", "\"deviceName\" is 4; expected a text of 1 to 127 bytes"},
        {"totalGlobalMem", "-1", "\"totalGlobalMem\" is -1; expected a number of 1 to 1125899906842624"},
    };
    json_t *good = h100();
    for (int i = 0; i < BT_COUNT_OF(wrong); i++) {
        bt_card made = {0};
        json_t *card = json_copy(good);
        json_object_set_new(card, wrong[i][0], json_loads(wrong[i][1], JSON_DECODE_ANY, NULL));
        ck_assert_int_eq(parse(card, &made), BT_ERROR_DATA);
        ck_assert_msg(strstr(bt_error(), wrong[i][2]), "%s", bt_error());
        bt_error_clear();
        json_decref(card);
    }
    json_decref(good);
}
END_TEST

START_TEST(no_description)
{
    bt_card card = {0};
    ck_assert_int_eq(bt_card_parse("a", "[]", 2, &card), BT_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(bt_error(), "device profile a: it does not contain a JSON object"));
    bt_error_clear();
    ck_assert_int_eq(bt_card_parse("b", "{\n\"x\"", 5, &card), BT_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(bt_error(), "device profile b: line 2: "));
    bt_error_clear();
    ck_assert_int_eq(bt_card_read("/no/such/file.json", &card), BT_ERROR_FILE);
    ck_assert_str_eq(bt_error(), "device profile /no/such/file.json cannot be opened: No such file or directory");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runtime: card");
    TCase *tcase = tcase_create("card");
    tcase_add_test(tcase, read);
    tcase_add_test(tcase, each_field_is_needed);
    tcase_add_test(tcase, wrong_ones);
    tcase_add_test(tcase, no_description);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
