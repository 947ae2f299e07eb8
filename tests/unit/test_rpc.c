/* SPDX-License-Identifier: MIT */
/*
 * JSON-RPC as text: every malformed line gets the standard's code and a sentence that names what is
 * wrong, and nothing that comes from outside can break the answer.
 */
#include "daemon/ctl/call_words.h"
#include "daemon/ctl/rpc.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct error why;

static int parsed(const char *line, struct rpc_request *rq) {
    why = (struct error){0};
    return rpc_parse(line, strlen(line), rq, &why);
}

static void refused(const char *line, int code, const char *words) {
    struct rpc_request rq;
    cr_expect_eq(parsed(line, &rq), code, "%s", line);
    cr_expect(strstr(why.text, words), "%s: \"%s\" does not say \"%s\"", line, why.text, words);
    rpc_request_fini(&rq);
}

Test(rpc, a_call_is_taken_apart) {
    struct rpc_request rq;
    cr_assert_eq(
        parsed("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"status\",\"params\":{\"a\":1}}", &rq),
        0);
    cr_expect_eq(json_integer_value(rq.id), 7);
    cr_expect_str_eq(rq.method, "status");
    cr_expect_eq(rpc_uint(rq.params, "a"), 1);
    rpc_request_fini(&rq);
}

Test(rpc, without_an_id_it_is_a_notification) {
    struct rpc_request rq;
    cr_assert_eq(parsed("{\"jsonrpc\":\"2.0\",\"method\":\"status\"}", &rq), 0);
    cr_expect_null(rq.id);
    rpc_request_fini(&rq);
}

Test(rpc, what_is_not_json_is_a_parse_error) {
    refused("", RPC_PARSE, "not JSON");
    refused("{", RPC_PARSE, "not JSON");
    refused("{\"id\":1,\"id\":2}", RPC_PARSE, "duplicate");
    refused("\xff\xfe", RPC_PARSE, "not JSON");
    refused("{} {}", RPC_PARSE, "not JSON");
    struct rpc_request rq;
    cr_expect_eq(rpc_parse("{}\0{}", 5, &rq, &why), RPC_PARSE, "a NUL byte ends nothing");
    rpc_request_fini(&rq);
}

Test(rpc, depth_without_end_is_a_parse_error) {
    char deep[60000];
    memset(deep, '[', sizeof(deep));
    struct rpc_request rq;
    cr_expect_eq(rpc_parse(deep, sizeof(deep), &rq, &why), RPC_PARSE);
    rpc_request_fini(&rq);
}

Test(rpc, a_wrong_envelope_is_an_invalid_request) {
    refused("[]", RPC_REQUEST, "batches");
    refused("1", RPC_REQUEST, "object");
    refused("{}", RPC_REQUEST, "jsonrpc");
    refused("{\"jsonrpc\":\"1.0\",\"method\":\"m\"}", RPC_REQUEST, "2.0");
    refused("{\"jsonrpc\":2.0,\"method\":\"m\"}", RPC_REQUEST, "2.0");
    refused("{\"jsonrpc\":\"2.0\"}", RPC_REQUEST, "method");
    refused("{\"jsonrpc\":\"2.0\",\"method\":3}", RPC_REQUEST, "method");
    refused("{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":{}}", RPC_REQUEST, "id");
    refused("{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"parms\":{}}", RPC_REQUEST, "parms");
}

Test(rpc, the_id_comes_back_also_with_an_invalid_request) {
    struct rpc_request rq;
    cr_expect_eq(parsed("{\"jsonrpc\":\"1.0\",\"id\":\"x\",\"method\":\"m\"}", &rq), RPC_REQUEST);
    char *line = rpc_error(rq.id, RPC_REQUEST, &why);
    cr_expect(strstr(line, "\"id\":\"x\""), "%s", line);
    free(line);
    rpc_request_fini(&rq);
}

/* Its line has an id of so many bytes, each written as six. */
static int parsed_with_id_of(unsigned bytes, struct rpc_request *rq) {
    char id[6 * (RPC_ID_MAX + 1) + 1], line[sizeof(id) + 64];
    for (unsigned i = 0; i < bytes; i++)
        snprintf(id + 6 * (size_t)i, 7, "\\u0041");
    snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"m\"}", id);
    return parsed(line, rq);
}

/* It is kept until the call is answered, so it is not what a line can bring. */
Test(rpc, an_id_is_short) {
    struct rpc_request rq;
    cr_expect_eq(parsed_with_id_of(RPC_ID_MAX, &rq), 0, "%s", why.text);
    cr_expect_eq(json_string_length(rq.id), RPC_ID_MAX);
    rpc_request_fini(&rq);
    cr_expect_eq(parsed_with_id_of(RPC_ID_MAX + 1, &rq), RPC_REQUEST);
    cr_expect_str_eq(why.text, "\"id\" has 257 bytes, at most 256 are taken");
    cr_expect_eq(why.code, RDMAD_E_LENGTH);
    cr_expect_null(rq.id, "it comes back in no answer");
    rpc_request_fini(&rq);
}

static const struct rpc_param list[] = {{"id", RPC_UINT, true, 100},
                                        {"all", RPC_BOOL, false, 0},
                                        {"name", RPC_TEXT, false, 4},
                                        {"tag", RPC_ANY_UINT, false, UINT64_MAX},
                                        {NULL, RPC_END, false, 0}};

static int checked(const char *params) {
    json_t *p = json_loads(params, JSON_DECODE_ANY, NULL);
    why = (struct error){0};
    int rc = rpc_check(list, p, &why);
    json_decref(p);
    return rc;
}

Test(rpc, params_are_checked_against_their_list) {
    cr_expect_eq(checked("{\"id\":0}"), 0);
    cr_expect_eq(checked("{\"id\":100,\"all\":false,\"name\":\"abcd\"}"), 0);
    static const char *const wrong[][2] = {
        {"{}", "\"id\" is missing"},
        {"[1]", "by name"},
        {"3", "by name"},
        {"{\"id\":101}", "0 to 100"},
        {"{\"id\":-1}", "0 to 100"},
        {"{\"id\":1.0}", "0 to 100"},
        {"{\"id\":\"1\"}", "0 to 100"},
        {"{\"id\":1,\"all\":1}", "true or false"},
        {"{\"id\":1,\"name\":\"abcde\"}", "0 to 4 bytes"},
        {"{\"id\":1,\"name\":null}", "0 to 4 bytes"},
        {"{\"id\":1,\"tag\":-1}", "string of its digits"},
        {"{\"id\":1,\"tag\":1.5}", "string of its digits"},
        {"{\"id\":1,\"tag\":true}", "string of its digits"},
        {"{\"id\":1,\"tag\":\"\"}", "string of its digits"},
        {"{\"id\":1,\"tag\":\"-1\"}", "string of its digits"},
        {"{\"id\":1,\"tag\":\" 1\"}", "string of its digits"},
        {"{\"id\":1,\"tag\":\"1x\"}", "string of its digits"},
        {"{\"id\":1,\"tag\":\"18446744073709551616\"}", "string of its digits"},
        {"{\"id\":1,\"nome\":\"a\"}", "unknown parameter \"nome\""},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_expect_eq(checked(wrong[i][0]), RDMAD_E_INVAL, "%s", wrong[i][0]);
        cr_expect(strstr(why.text, wrong[i][1]), "%s: %s", wrong[i][0], why.text);
    }
    cr_expect_eq(rpc_check(list, NULL, &why), RDMAD_E_INVAL, "a required one is missing");
}

Test(rpc, a_number_of_64_bits_comes_as_its_digits) {
    static const struct {
        const char *params;
        uint64_t tag;
    } good[] = {{"{\"id\":1}", 0},
                {"{\"id\":1,\"tag\":7}", 7},
                {"{\"id\":1,\"tag\":\"7\"}", 7},
                {"{\"id\":1,\"tag\":9223372036854775807}", INT64_MAX},
                {"{\"id\":1,\"tag\":\"9223372036854775808\"}", UINT64_C(1) << 63},
                {"{\"id\":1,\"tag\":\"18446744073709551615\"}", UINT64_MAX}};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        json_t *p = json_loads(good[i].params, 0, NULL);
        cr_expect_eq(rpc_check(list, p, &why), 0, "%s: %s", good[i].params, why.text);
        cr_expect_eq(rpc_uint(p, "tag"), good[i].tag, "%s", good[i].params);
        json_decref(p);
    }
}

Test(rpc, an_error_carries_our_code_and_the_whole_sentence) {
    error_set(&why, RDMAD_E_NO_LEASE, "no lease %d", 5);
    char *line = rpc_error(NULL, RPC_FAILED, &why);
    json_t *doc = json_loads(line, 0, NULL);
    json_t *error = json_object_get(doc, "error"), *data = json_object_get(error, "data");
    cr_expect_eq(json_integer_value(json_object_get(error, "code")), -32015);
    cr_expect_str_eq(json_string_value(json_object_get(data, "code")), "RDMAD_E_NO_LEASE");
    cr_expect_str_eq(json_string_value(json_object_get(data, "text")), "no lease 5");
    cr_expect(json_is_null(json_object_get(doc, "id")));
    cr_expect_eq(line[strlen(line) - 1], '\n');
    cr_expect_null(memchr(line, '\n', strlen(line) - 1), "one answer is one line");
    json_decref(doc);
    free(line);
}

Test(rpc, bytes_from_outside_cannot_break_an_answer) {
    error_set(&why, RDMAD_E_INVAL, "no method \"\xff\x1b[2J\nx\xc3\"");
    char *line = rpc_error(NULL, RPC_METHOD, &why);
    cr_assert_not_null(line);
    json_t *doc = json_loads(line, 0, NULL);
    cr_expect_not_null(doc, "%s", line);
    cr_expect_null(strchr(line, '\x1b'));
    json_decref(doc);
    free(line);
}

static unsigned long allocations, failing, number;

static void *some_memory(size_t size) {
    return ++allocations == failing ? NULL : malloc(size);
}

Test(rpc, an_answer_is_whole_or_there_is_none_whichever_allocation_fails) {
    json_t *id = json_integer(7);
    json_set_alloc_funcs(some_memory, free);
    do {
        failing = 0;
        json_t *result = json_pack("{s:i, s:s}", "a", 1, "b", "two");
        failing = allocations + ++number;
        char *line = rpc_result(id, result);
        cr_expect(!line || !strcmp(line, "{\"jsonrpc\":\"2.0\",\"result\":{\"a\":1,\"b\":\"two\"},"
                                         "\"id\":7}\n"),
                  "allocation %lu: %s", number, line);
        free(line);
    } while (allocations >= failing);
    cr_expect_gt(number, 8);
    json_set_alloc_funcs(malloc, free);
    json_decref(id);
}

/* ---- what a call does, in words ----------------------------------------------------------------
 */

Test(rpc, what_a_call_does_is_said_with_what_it_is_done_to_and_why) {
    static const struct {
        const char *method, *params, *words;
    } cases[] = {
        {"session.pause", "{\"id\":23,\"why\":\"noise\"}", "pauses session 23: noise"},
        {"session.pause", "{\"id\":23}", "pauses session 23"},
        {"session.resume", "{\"id\":23}", "resumes session 23"},
        {"session.kick", "{\"id\":4,\"why\":\"it is late\"}", "ends session 4: it is late"},
        {"lease.revoke", "{\"id\":7}", "revokes lease 7"},
        {"limit.set", "{\"who\":\"uid:7\",\"set\":\"weight=5\"}", "calls limit.set uid:7 weight=5"},
        {"log.level", "{\"level\":\"debug\"}", "sets the log's level to debug"},
        {"peer.add", "{\"address\":\"a:1\"}", "adds the peer at a:1"},
        {"drain", "{}", "drains rdmad"},
        {"drain", "{\"off\":true}", "ends the drain: rdmad goes on"},
        {"upgrade", "{}", "upgrades rdmad"},
        {"upgrade", "{\"program\":\"/p\"}", "upgrades rdmad to /p"},
        {"reload", "{}", "has the settings read again"},
        {"a.new.one", "{}", "calls a.new.one"},
    };
    char words[CALL_WORDS];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *params = json_loads(cases[i].params, 0, NULL);
        cr_expect_str_eq(call_words(cases[i].method, params, words), cases[i].words, "%s", words);
        json_decref(params);
    }
}

Test(rpc, a_call_whose_words_do_not_fit_is_cut) {
    char reason[1001] = "", words[CALL_WORDS];
    memset(reason, 'x', sizeof(reason) - 1);
    json_t *params = json_pack("{s:i, s:s}", "id", 23, "why", reason);
    cr_expect_eq(strlen(call_words("session.kick", params, words)), CALL_WORDS - 1);
    cr_expect_eq(strncmp(words, "ends session 23: xxx", 20), 0, "%s", words);
    json_decref(params);
}
