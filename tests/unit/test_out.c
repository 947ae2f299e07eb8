/* SPDX-License-Identifier: MIT */
/*
 * What rdmactl prints of texts that others have written: nothing of them is obeyed by a terminal,
 * and what is fit for one is left as it is.
 */
#include "rdmactl/cli.h"
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

struct cli cli = {.dir = "/nowhere"};

static void shows(const char *text, const char *wanted) {
    char buf[64];
    cr_expect_str_eq(cli_safe_text(buf, sizeof(buf), text), wanted);
}

Test(out, controls_are_not_obeyed_in_whatever_form_they_come) {
    shows("a\x1b[2Jb\x7f\n", "a?[2Jb??");
    shows("a\xc2\x9b"
          "2Jb\xc2\x80\xc2\x9f",
          "a?2Jb??");
    shows("a\x9b"
          "2J",
          "a?2J");                                                  /* C1 as a byte of its own */
    shows("\xc1\x9b \xe0\x82\x9b \xf0\x80\x82\x9b", "?? ??? ????"); /* longer than need be */
}

Test(out, bytes_that_are_no_utf8_are_replaced_one_by_one) {
    shows("\xff\xfe", "??");
    shows("a\xc3", "a?");
    shows("a\xe2\x82", "a??");
    shows("\xed\xa0\x80", "???");      /* half of a pair */
    shows("\xf4\x90\x80\x80", "????"); /* beyond the last */
    shows("\xf8\x88\x80\x80\x80", "?????");
}

Test(out, other_utf8_stays) {
    shows("M\xc3\xbcnchen \xc2\xa0 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf",
          "M\xc3\xbcnchen \xc2\xa0 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf");
}

Test(out, no_character_is_cut_where_room_ends) {
    char buf[5];
    cr_expect_str_eq(cli_safe_text(buf, sizeof(buf), "abcd\xc3\xbc"), "abcd");
    cr_expect_str_eq(cli_safe_text(buf, sizeof(buf), "abc\xc3\xbc"), "abc");
    cr_expect_str_eq(cli_safe_text(buf, sizeof(buf), "ab\xc3\xbc!"), "ab\xc3\xbc");
}

Test(out, what_a_daemon_answers_is_fit_for_a_terminal_at_any_depth) {
    json_t *answer = json_loads("{\"peers\": [{\"node\": \"a\\u009b2J\", \"at\": \"\\u001bc\"}],"
                                " \"text\": \"one\\ntwo \\u20ac\"}",
                                0, NULL);
    cr_assert_not_null(answer);
    cli_safe_json(answer);
    const json_t *peer = json_array_get(json_object_get(answer, "peers"), 0);
    cr_expect_str_eq(json_string_value(json_object_get(peer, "node")), "a?2J");
    cr_expect_str_eq(json_string_value(json_object_get(peer, "at")), "?c");
    cr_expect_str_eq(json_string_value(json_object_get(answer, "text")), "one\ntwo \xe2\x82\xac");
    json_decref(answer);
}

Test(out, a_document_says_the_same_and_is_not_obeyed, .init = cr_redirect_stdout) {
    cr_expect_eq(cli_print_json(json_pack("{s:s}", "node", "\xc2\x9b\x7f\x1b \xc3\xbc")),
                 EXIT_GOOD);
    cr_expect_stdout_eq_str("{\"schema\":1,\"node\":\"\\u009B\\u007F\\u001B \xc3\xbc\"}\n");
}

Test(out, errors_that_quote_others_are_fit_for_a_terminal, .init = cr_redirect_stderr) {
    cli_fail("RDMAD_E_INVAL", "no \xc2\x9b%s", "\x9b");
    cli_note("nor %s", "\xc2\x9b");
    fflush(stderr);
    cr_expect_stderr_eq_str("rdmactl: no ??\nrdmactl: nor ?\n");
}

/* A table of two rows with that in the first column, or the last. */
static void print_table(const char *first, const char *last) {
    struct table *t = table_new(2);
    table_cell(t, false, "A");
    table_cell(t, false, "B");
    table_cell(t, false, first);
    table_cell(t, false, last);
    table_print(t);
    fflush(stdout);
}

#define TEN "0123456789"
#define SIXTY TEN TEN TEN TEN TEN TEN

Test(out, a_cell_that_is_cut_says_so, .init = cr_redirect_stdout) {
    print_table(SIXTY "abcd", "x");
    cr_expect_stdout_eq_str(
        "A                                                                B\n" SIXTY "...  x\n");
}

Test(out, no_character_is_cut_in_a_table, .init = cr_redirect_stdout) {
    print_table(TEN TEN TEN TEN TEN "01234567\xe2\x82\xac" TEN, "x");
    cr_expect_stdout_eq_str(
        "A                                                              B\n" TEN TEN TEN TEN TEN
        "01234567...  x\n");
}

Test(out, a_cell_that_just_fits_is_whole, .init = cr_redirect_stdout) {
    print_table(SIXTY "abc", "x");
    cr_expect_stdout_eq_str(
        "A                                                                B\n" SIXTY "abc  x\n");
}

Test(out, the_last_column_is_never_cut, .init = cr_redirect_stdout) {
    print_table("x", SIXTY SIXTY "a\xc2\x9b");
    cr_expect_stdout_eq_str("A  B\nx  " SIXTY SIXTY "a?\n");
}
