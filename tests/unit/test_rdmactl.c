/* SPDX-License-Identifier: MIT */
/*
 * rdmactl's command line, without a daemon: every mistake has its exit code and a sentence that
 * says what is wrong and what is right, and -j is one JSON document whatever happens.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char out[65536], err[65536];

static void slurp(int fd, char *buf, size_t size) {
    size_t n = 0;
    ssize_t got;
    while (n + 1 < size && (got = read(fd, buf + n, size - 1 - n)) > 0)
        n += (size_t)got;
    buf[n] = '\0';
    close(fd);
}

/* Runs rdmactl with the words of line; returns its exit code. What it says stays far below what a
 * pipe takes, so reading one after the other is safe. */
static int run(const char *line) {
    char words[512], program[512], *argv[32];
    int n = 1, o[2], e[2], status;
    snprintf(words, sizeof(words), "%s", line);
    snprintf(program, sizeof(program), "%s/rdmactl/rdmactl", getenv("RDMAD_BUILD"));
    argv[0] = program;
    for (char *w = strtok(words, " "); w; w = strtok(NULL, " "))
        argv[n++] = w;
    argv[n] = NULL;
    cr_assert(!pipe(o) && !pipe(e));
    pid_t pid = fork();
    if (pid == 0) {
        dup2(o[1], 1);
        dup2(e[1], 2);
        execv(program, argv);
        _exit(127);
    }
    close(o[1]);
    close(e[1]);
    slurp(o[0], out, sizeof(out));
    slurp(e[0], err, sizeof(err));
    waitpid(pid, &status, 0);
    cr_assert(WIFEXITED(status), "%s: signal %d\n%s", line, WTERMSIG(status), err);
    return WEXITSTATUS(status);
}

static void wrong(const char *line, const char *words) {
    cr_expect_eq(run(line), 2, "rdmactl %s", line);
    cr_expect_str_empty(out, "rdmactl %s writes to standard output", line);
    cr_expect(strstr(err, words), "rdmactl %s: \"%s\" does not say \"%s\"", line, err, words);
}

Test(rdmactl, objects_and_verbs_that_do_not_exist_are_answered_with_those_that_do) {
    wrong("", "an object is missing; there are: status, device, session");
    wrong("sesion show", "unknown object \"sesion\"; there are: status,");
    wrong("lease revoek 3", "unknown verb \"revoek\" for lease; there are: show, revoke");
    wrong("bench", "bench needs a verb: serve, nop, read, write");
    wrong("bench swap x", "unknown verb \"swap\" for bench");
}

Test(rdmactl, bad_options_are_named) {
    wrong("-x status", "unknown option -x");
    wrong("lease show --everything", "unknown option --everything");
    wrong("-d", "-d needs a value: DIR");
    wrong("share f --ttl", "--ttl needs a value: TIME");
    wrong("share f --once=yes", "--once takes no value");
    wrong("status now", "unexpected argument \"now\"");
}

Test(rdmactl, bad_numbers_are_quoted_with_what_is_allowed) {
    wrong("lease revoke first", "\"first\" is not a lease's number");
    wrong("lease revoke -- -1", "\"-1\" is not a lease's number");
    wrong("lease revoke 99999999999999999999", "is not a lease's number");
    wrong("share f --ttl 5x", "\"5x\" is not a time like 500ms, 2s, 5m or 1h");
    wrong("share f --ttl 0", "out of range");
    wrong("share f --ttl 99999999999999999h", "is not a time");
    wrong("bench write -s 12q u", "\"12q\" is not a size like 4096, 64K, 1M or 2G");
    wrong("bench write -q 0 u", "-q: 0 is out of range, 1 to 4096");
    wrong("bench write -n 1e6 u", "\"1e6\" is not a whole number");
    wrong("bench nop --poll never", "\"never\" is none of busy, adaptive, event");
    wrong("top -n 0", "out of range");
}

Test(rdmactl, missing_arguments_are_named) {
    wrong("lease revoke", "ID is missing; usage: rdmactl lease revoke ID");
    wrong("peer add", "HOST:PORT is missing");
    wrong("share", "FILE is missing");
    wrong("fetch", "URI is missing");
    wrong("bench read", "URI is missing");
    wrong("config check", "FILE is missing");
    wrong("bench write -s 0 u", "at least one byte");
}

Test(rdmactl, help_of_a_command_is_had_both_ways) {
    cr_expect_eq(run("help share"), 0);
    cr_expect(strstr(out, "Usage: rdmactl [-d DIR] [-j] share FILE") && strstr(out, "--once"), "%s",
              out);
    cr_expect_eq(run("share --help"), 0);
    cr_expect(strstr(out, "--once"), "%s", out);
    cr_expect_eq(run("help lease revoke"), 0);
    cr_expect(strstr(out, "lease revoke ID"), "%s", out);
    cr_expect_eq(run("help lease"), 0);
    cr_expect(strstr(out, "rdmactl lease show") && strstr(out, "rdmactl lease revoke"), "%s", out);
    cr_expect_eq(run("help"), 0);
    wrong("help sahre", "unknown object \"sahre\"");
    wrong("help lease revoke 3", "unexpected argument \"3\"");
}

static json_t *json_error(const char *line, int code) {
    cr_expect_eq(run(line), code, "rdmactl %s", line);
    cr_expect_str_empty(err, "with -j nothing goes to standard error: %s", err);
    json_t *doc = json_loads(out, 0, NULL);
    cr_assert_not_null(doc, "rdmactl %s: not one JSON document: %s", line, out);
    cr_expect_eq(json_integer_value(json_object_get(doc, "schema")), 1);
    json_t *error = json_incref(json_object_get(doc, "error"));
    json_decref(doc);
    cr_assert(json_is_string(json_object_get(error, "code")));
    cr_assert(json_is_string(json_object_get(error, "text")));
    return error;
}

Test(rdmactl, with_j_an_error_is_one_json_document_wherever_j_stands) {
    static const char *const lines[] = {"-j nonsense",     "-j lease revoke",
                                        "lease revoke -j", "bench read -s 1z -j",
                                        "--json -x",       "-j fetch rdmad:///x"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        json_decref(json_error(lines[i], 2));
}

Test(rdmactl, no_daemon_is_a_failure_that_says_where_it_looked) {
    json_t *error = json_error("-d /nonexistent/rdmad -j status", 1);
    cr_expect_str_eq(json_string_value(json_object_get(error, "code")), "RDMAD_E_NO_DAEMON");
    cr_expect(strstr(json_string_value(json_object_get(error, "text")), "/nonexistent/rdmad"));
    json_decref(error);
    json_decref(json_error("-d /nonexistent/rdmad -j bench nop", 1));
    json_decref(json_error("-d /nonexistent/rdmad -j fetch rdmad:///x -o /nonexistent/f", 1));
}

Test(rdmactl, doctor_without_a_daemon_fails_and_still_checks_the_rest) {
    cr_expect_eq(run("-d /nonexistent/rdmad -j doctor"), 1);
    json_t *doc = json_loads(out, 0, NULL);
    cr_assert_not_null(doc);
    cr_expect(json_is_false(json_object_get(doc, "healthy")));
    cr_expect_geq(json_array_size(json_object_get(doc, "checks")), 8);
    json_decref(doc);
}

Test(rdmactl, help_and_version_are_good) {
    cr_expect_eq(run("--version"), 0);
    cr_expect(strstr(out, "rdmactl "));
    static const char *const lines[] = {
        "--help", "status --help", "share -h", "bench write --help", "lease --help", "top --help"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        cr_expect_eq(run(lines[i]), 0, "rdmactl %s", lines[i]);
        cr_expect(strlen(out) > 40 && !*err, "rdmactl %s", lines[i]);
    }
}

Test(rdmactl, config_check_reads_as_the_daemon_does) {
    char path[] = "/tmp/rdmactl-test-XXXXXX", line[128];
    int fd = mkstemp(path);
    static const char text[] = "{ // comment\n  \"wrokers\": 2\n}\n";
    cr_assert(fd >= 0 && write(fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1);
    snprintf(line, sizeof(line), "config check %s", path);
    cr_expect_eq(run(line), 1);
    cr_expect(strstr(err, "wrokers") && strstr(err, ":2:"), "%s", err);
    cr_assert(!ftruncate(fd, 0) && pwrite(fd, "{}", 2, 0) == 2);
    cr_expect_eq(run(line), 0, "%s", err);
    close(fd);
    unlink(path);
}
