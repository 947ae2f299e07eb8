/* SPDX-License-Identifier: MIT */
/*
 * test_args.c - wrong arguments and configuration files: exit code, a message that names what is
 * wrong, and no file, socket or process left behind.
 */
#include "tests/support/harness.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[96], rdmad[512], rdmactl[512];

static void begin(void) {
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/args.XXXXXX", tmp ? tmp : "/tmp");
    CHECK(mkdtemp(dir), "%s", dir);
    build_path("daemon/rdmad", rdmad, sizeof(rdmad));
    build_path("rdmactl/rdmactl", rdmactl, sizeof(rdmactl));
}

/* The directory is empty again but for what outlives a daemon: the lock that makes two of them in
 * it impossible (a lock file that is removed is no lock), and by what peers know the next one. */
static void end(void) {
    static const char *const stay[] = {"rdmad.lock", "node.secret"};
    for (unsigned i = 0; i < 2; i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", dir, stay[i]);
        unlink(path);
    }
    CHECK(rmdir(dir) == 0, "%s: something was left behind: %s", dir, strerror(errno));
}

static void expect(const char *const *argv, int code, const char *text) {
    char out[8192];
    int got = run_program(argv, out, sizeof(out));
    CHECK(got == code, "%s %s %s ...: exit code %d instead of %d:\n%s", argv[0], argv[1],
          argv[1] && argv[2] ? argv[2] : "", got, code, out);
    CHECK(strstr(out, text), "%s %s ...: does not say \"%s\" but:\n%s", argv[0], argv[1], text,
          out);
}
#define RUN(program, code, text, ...) \
    expect((const char *const[]){program, __VA_ARGS__, NULL}, code, text)

static void rdmad_refuses_bad_arguments(void) {
    begin();
    RUN(rdmad, 2, "--nonsense", "--nonsense");
    RUN(rdmad, 2, "unexpected argument 'extra'", "extra");
    RUN(rdmad, 2, "requires an argument", "--listen");
    RUN(rdmad, 2, "--listen", "--runtime-dir", dir, "--listen", "127.0.0.1");
    RUN(rdmad, 2, "--listen", "--runtime-dir", dir, "--listen", "127.0.0.1:70000");
    RUN(rdmad, 2, "--listen", "--runtime-dir", dir, "--listen", ":1");
    RUN(rdmad, 2, "--log-level", "--runtime-dir", dir, "--log-level", "loud");
    RUN(rdmad, 2, "--runtime-dir", "--runtime-dir", "");
    char longer[200];
    memset(longer, 'x', sizeof(longer));
    longer[0] = '/';
    longer[199] = 0;
    RUN(rdmad, 2, "--runtime-dir", "--runtime-dir", longer);
    RUN(rdmad, 0, "Usage", "--help");
    RUN(rdmad, 0, "rdmad ", "--version");
    end();
}

/* What cannot work is said before anything is served. */
static void rdmad_says_why_it_cannot_start(void) {
    begin();
    char missing[128];
    snprintf(missing, sizeof(missing), "%s/missing/deeper", dir);
    RUN(rdmad, 1, "missing/deeper", "--runtime-dir", missing, "--listen", "127.0.0.1:0");
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    RUN(rdmad, 1, tdaemon_dir(d), "--runtime-dir", tdaemon_dir(d), "--listen", "127.0.0.1:0");
    RUN(rdmad, 1, strchr(tdaemon_listen(d), ':') + 1, "--runtime-dir", dir, "--listen",
        tdaemon_listen(d));
    json_decref(tdaemon_status(d)); /* and the first one did not notice */
    tdaemon_stop(d);
    end();
}

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "we");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s", path);
}

static void bad_configuration(const char *text, const char *said) {
    char path[128];
    snprintf(path, sizeof(path), "%s/bad.json", dir);
    write_file(path, text);
    RUN(rdmad, 1, said, "--config", path, "--check-config");
    RUN(rdmad, 2, said, "--config", path, "--runtime-dir", dir, "--listen", "127.0.0.1:0");
    RUN(rdmactl, 1, said, "config", "check", path);
    unlink(path);
}

/* What no second try mends has an exit code of its own, which the service's unit knows. */
static void settings_that_cannot_work_end_it_for_good(void) {
    begin();
    char path[128];
    snprintf(path, sizeof(path), "%s/group.json", dir);
    write_file(path, "{\"socket_group\": \"nobody-has-this-group\"}\n");
    RUN(rdmad, 2, "nobody-has-this-group", "--config", path, "--runtime-dir", dir, "--listen",
        "127.0.0.1:0");
    unlink(path);
    end();
}

static void bad_configuration_files_are_refused(void) {
    begin();
    bad_configuration("{\n  \"listen\": \"127.0.0.1:0\",\n  \"lissten\": 1\n}\n", "lissten");
    bad_configuration("{\n\n  \"workers\": \"two\"\n}\n", "workers");
    bad_configuration("{\n  \"workers\": 1000000\n}\n", "workers");
    bad_configuration("{\n  \"workers\": -1\n}\n", "workers");
    bad_configuration("{\n  \"lease\": {\"max_ttl\": 3}\n}\n", "max_ttl");
    bad_configuration("{\n  \"workers\": 1,\n  \"workers\": 2\n}\n", "workers");
    bad_configuration("{\n  # a comment\n  // another\n  \"workers\": 1,,\n}\n", "bad.json:4");
    bad_configuration("{\n  \"fabric\": \"ucx\"\n}\n", "auto, verbs, tcp");
    bad_configuration("{\n  \"verbs\": {\"mtu\": 1500}\n}\n", "verbs.mtu is 1500");
    bad_configuration("[]\n", "bad.json");
    bad_configuration("", "bad.json");
    RUN(rdmad, 1, "/nonexistent.json", "--config", "/nonexistent.json", "--check-config");
    end();
}

/* Without a device, who asked for RDMA is refused, in words, before anything is served. */
static void rdma_that_is_not_there_is_refused(void) {
    begin();
    char path[128];
    snprintf(path, sizeof(path), "%s/verbs.json", dir);
    write_file(path, "{\"fabric\": \"tcp\"}\n");
    RUN(rdmad, 2, "require_rdma is true and fabric is \"tcp\"", "--config", path, "--runtime-dir",
        dir, "--listen", "127.0.0.1:0", "--require-rdma");
    write_file(path, "{\"fabric\": \"verbs\", \"verbs\": {\"device\": \"nosuch0\"}}\n");
    RUN(rdmad, 1, "fabric \"verbs\": ", "--config", path, "--runtime-dir", dir, "--listen",
        "127.0.0.1:0");
    if (access("/sys/class/infiniband", F_OK) == 0)
        RUN(rdmad, 1, "nosuch0", "--config", path, "--runtime-dir", dir, "--listen", "127.0.0.1:0");
    else
        RUN(rdmad, 1, "rdma link add", "--runtime-dir", dir, "--listen", "127.0.0.1:0",
            "--require-rdma");
    unlink(path);
    end();
}

/* Checked by both: file, line, column and what is not there. */
static void not_of_this_machine(const char *text, const char *place, const char *said) {
    char path[128];
    snprintf(path, sizeof(path), "%s/bad.json", dir);
    write_file(path, text);
    RUN(rdmad, 1, said, "--config", path, "--check-config");
    RUN(rdmad, 1, place, "--config", path, "--check-config");
    RUN(rdmactl, 1, said, "config", "check", path);
    RUN(rdmactl, 1, place, "config", "check", path);
    unlink(path);
}

static void what_this_machine_does_not_have_is_found_by_a_check(void) {
    begin();
    not_of_this_machine("{\n  \"socket_group\": \"no-such-group\"\n}\n", "bad.json:2:19",
                        "no-such-group\": this machine has no such group");
    not_of_this_machine("{\"runtime_dir\": \"/nonexistent/deeper\"}\n", "bad.json:1:17",
                        "/nonexistent/deeper\": neither it nor the directory");
    not_of_this_machine("{\"runtime_dir\": \"/etc/passwd\"}\n", "bad.json:1:17",
                        "/etc/passwd\" is not a directory");
    not_of_this_machine("{\"tcp\": {\n\"congestion_control\": \"swift\"}}\n", "bad.json:2:23",
                        "swift\": this kernel does not have it");
    RUN(rdmad, 1, "--runtime-dir: runtime_dir", "--runtime-dir", "/nonexistent/deeper",
        "--check-config");
    end();
}

/* What is overridden is nobody's concern, nor is a directory that would be made. */
static void what_is_not_used_is_not_looked_for(void) {
    begin();
    char path[128], there[160];
    snprintf(path, sizeof(path), "%s/over.json", dir);
    snprintf(there, sizeof(there), "%s/made", dir);
    write_file(path, "{\"runtime_dir\": \"/nonexistent/deeper\", \"socket_group\": \"root\"}\n");
    RUN(rdmad, 0, "", "--config", path, "--runtime-dir", there, "--check-config");
    unlink(path);
    end();
}

static void good_configuration_is_quiet(void) {
    begin();
    char path[128], out[256];
    snprintf(path, sizeof(path), "%s/good.json", dir);
    FILE *f = fopen(path, "we");
    CHECK(f && fputs("{ // one worker\n  \"workers\": 1 # is enough\n}\n", f) >= 0 &&
              fclose(f) == 0,
          "%s", path);
    const char *const argv[] = {rdmad, "--config",       path, "--runtime-dir",
                                dir,   "--check-config", NULL};
    CHECK(run_program(argv, out, sizeof(out)) == 0 && out[0] == 0, "said: %s", out);
    unlink(path);
    end();
}

/* With -j every answer is one JSON document, errors too. */
static void expect_json_error(const char *const *argv, int code) {
    char out[8192];
    int got = run_program(argv, out, sizeof(out));
    CHECK(got == code, "%s ...: exit code %d instead of %d: %s", argv[1], got, code, out);
    json_t *j = json_loads(out, 0, NULL);
    CHECK(json_integer_value(json_object_get(j, "schema")) >= 1 && json_object_get(j, "error"),
          "not a JSON error: %s", out);
    json_decref(j);
}

static void rdmactl_refuses_bad_arguments(void) {
    begin();
    RUN(rdmactl, 2, "nonsense", "nonsense");
    RUN(rdmactl, 2, "frobnicate", "session", "frobnicate");
    RUN(rdmactl, 2, "--frobnicate", "status", "--frobnicate");
    RUN(rdmactl, 2, "twelve", "-d", dir, "lease", "revoke", "twelve");
    RUN(rdmactl, 2, "FILE", "-d", dir, "share");
    RUN(rdmactl, 2, "ten", "-d", dir, "share", "/etc/hostname", "--ttl", "ten");
    RUN(rdmactl, 1, dir, "-d", dir, "status"); /* no daemon there: says where it looked */
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    const char *there = tdaemon_dir(d);
    RUN(rdmactl, 1, "127.0.0.1", "-d", there, "peer", "add", "127.0.0.1");
    RUN(rdmactl, 1, "12345", "-d", there, "lease", "revoke", "12345");
    RUN(rdmactl, 1, "127.0.0.1:1", "-d", there, "peer", "add", "127.0.0.1:1");
    RUN(rdmactl, 1, "/nonexistent", "-d", there, "share", "/nonexistent");
    RUN(rdmactl, 1, "URI", "-d", there, "fetch", "http://example.org/");
    expect_json_error((const char *const[]){rdmactl, "-j", "nonsense", NULL}, 2);
    expect_json_error((const char *const[]){rdmactl, "-d", dir, "-j", "status", NULL}, 1);
    expect_json_error(
        (const char *const[]){rdmactl, "-d", there, "-j", "lease", "revoke", "12345", NULL}, 1);
    expect_json_error((const char *const[]){rdmactl, "-d", there, "-j", "fetch", "rdmad:///none",
                                            "-o", "/dev/null", NULL},
                      1);
    tdaemon_stop(d);
    end();
}

TEST_MAIN(CASE(rdmad_refuses_bad_arguments), CASE(rdmad_says_why_it_cannot_start),
          CASE(settings_that_cannot_work_end_it_for_good),
          CASE(bad_configuration_files_are_refused), CASE(rdma_that_is_not_there_is_refused),
          CASE(what_this_machine_does_not_have_is_found_by_a_check),
          CASE(what_is_not_used_is_not_looked_for), CASE(good_configuration_is_quiet),
          CASE(rdmactl_refuses_bad_arguments))
