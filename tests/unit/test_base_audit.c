/* SPDX-License-Identifier: MIT */
/*
 * The audit: who had what done is written, in words that harm nobody, however much of it there is
 * and however slow the disk.
 */
#include "common/sanitizer.h"
#include "daemon/base/audit.h"
#include "daemon/base/audit_file.h"
#include "daemon/base/audit_limit.h"
#include "daemon/base/audit_record.h"
#include "daemon/base/clock.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MINUTE (60 * NSEC_PER_SEC)
/* A million; ASan, ten times slower, sees in a tenth what there is for it to see. */
#ifdef SANITIZED_ADDRESS
#define FLOOD 100000u
#else
#define FLOOD 1000000u
#endif

static struct audit_limit limit;

static bool pass(enum audit_event event, const char *cause, struct audit_who who, uint64_t now,
                 uint32_t *skipped) {
    uint32_t ignored;
    return audit_limit_pass(&limit, event, cause, &who, now, skipped ? skipped : &ignored);
}

static unsigned told(bool all, uint64_t now, uint64_t *sum) {
    struct audit_skipped s;
    unsigned n = 0;
    for (*sum = 0; audit_limit_tell(&limit, all, now, &s); n++)
        *sum += s.count;
    return n;
}

/* ---- how much ------------------------------------------------------------------------------- */

Test(audit_limit, a_million_violations_of_one_uid_are_a_few_lines_and_a_count) {
    uint64_t sum;
    unsigned lines = 0;
    for (unsigned i = 0; i < FLOOD; i++)
        lines += pass(AUDIT_VIOLATED, "ring", audit_user(1000, 7), MINUTE + i, NULL);
    cr_assert_eq(lines, AUDIT_LINES_BAD);
    cr_assert_eq(told(false, 2 * MINUTE - 1, &sum), 0, "the minute is not over");
    cr_assert_eq(told(false, 2 * MINUTE, &sum), 1);
    cr_assert_eq(sum, FLOOD - AUDIT_LINES_BAD);
    cr_assert_eq(told(true, 3 * MINUTE, &sum), 0, "a count is told once");
}

Test(audit_limit, a_million_violations_of_a_thousand_uids_are_a_hundred_lines) {
    uint64_t sum;
    unsigned lines = 0;
    for (unsigned i = 0; i < FLOOD; i++)
        lines += pass(AUDIT_REFUSED, i & 1 ? "quota" : "policy", audit_user(i / 2 % 1000, 1),
                      MINUTE + i, NULL);
    cr_assert_eq(lines, AUDIT_CLASS_LINES_BAD);
    unsigned counts = told(false, 2 * MINUTE + FLOOD, &sum);
    cr_assert_leq(lines + counts, 100);
    cr_assert_eq(sum, FLOOD - lines, "nothing is forgotten: %lu", (unsigned long)sum);
}

Test(audit_limit, a_million_addresses_are_a_hundred_lines) {
    uint64_t sum;
    unsigned lines = 0;
    char address[40];
    for (unsigned i = 0; i < FLOOD; i++) {
        snprintf(address, sizeof(address), "10.%u.%u.%u:%u", i >> 16, i >> 8 & 255, i & 255,
                 i & 1023);
        lines += pass(AUDIT_REFUSED, "tls.untrusted", audit_peer("", address), MINUTE + i, NULL);
    }
    lines += told(false, 2 * MINUTE + FLOOD, &sum);
    cr_assert_leq(lines, 100);
}

Test(audit_limit, the_first_of_another_is_written_though_somebody_floods) {
    uint32_t skipped;
    for (unsigned i = 0; i < 1000; i++)
        pass(AUDIT_REFUSED, "quota", audit_user(1000, 1), MINUTE, NULL);
    cr_assert(pass(AUDIT_REFUSED, "quota", audit_user(1001, 1), MINUTE, NULL));
    cr_assert(pass(AUDIT_REFUSED, "policy", audit_user(1000, 1), MINUTE, NULL));
    cr_assert(pass(AUDIT_REFUSED, "quota", audit_peer("b.example", "10.0.0.1:1"), MINUTE, NULL));
    cr_assert(pass(AUDIT_REFUSED, "quota", audit_peer("", "10.0.0.1:1"), MINUTE, NULL));
    cr_assert(pass(AUDIT_REFUSED, "quota", audit_nobody(), MINUTE, NULL));
    cr_assert(pass(AUDIT_REFUSED, "quota", audit_user(1000, 1), 2 * MINUTE, &skipped));
    cr_assert_eq(skipped, 1000 - AUDIT_LINES_BAD, "the next line has the count");
}

Test(audit_limit, a_tenant_is_another_than_who_has_the_same_uid) {
    struct audit_who blue = audit_user(1000, 1), red = blue;
    blue.tenant = "blue";
    red.tenant = "red";
    for (unsigned i = 0; i < 100; i++)
        pass(AUDIT_REFUSED, "quota", blue, MINUTE, NULL);
    cr_assert(pass(AUDIT_REFUSED, "quota", red, MINUTE, NULL));
    cr_assert(pass(AUDIT_REFUSED, "quota", audit_user(1000, 1), MINUTE, NULL));
    struct audit_skipped s;
    cr_assert(audit_limit_tell(&limit, false, 2 * MINUTE, &s));
    cr_assert_str_eq(s.who, "uid 1000 of tenant blue");
}

Test(audit_limit, causes_of_one_uid_leave_room_for_other_uids) {
    char causes[100][8];
    for (unsigned c = 0; c < 100; c++) {
        snprintf(causes[c], sizeof(causes[c]), "c%u", c % 3);
        for (unsigned i = 0; i < 100; i++)
            pass(AUDIT_REFUSED, causes[c], audit_user(1000, 1), MINUTE, NULL);
    }
    for (uid_t uid = 2000; uid < 2010; uid++)
        cr_assert(pass(AUDIT_REFUSED, "quota", audit_user(uid, 1), MINUTE, NULL), "uid %u", uid);
}

Test(audit_limit, a_network_of_ipv6_is_one_host_whatever_the_port) {
    unsigned lines = 0;
    char address[60];
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(address, sizeof(address), "[2001:db8:0:1::%x]:%u", i + 1, 1024 + i);
        lines += pass(AUDIT_REFUSED, "tls", audit_peer("", address), MINUTE, NULL);
    }
    cr_assert_eq(lines, AUDIT_LINES_BAD);
}

Test(audit_limit, it_is_asked_again_when_the_minute_is_over_and_not_before) {
    cr_assert_eq(audit_limit_next(&limit, MINUTE), CLOCK_NEVER);
    for (unsigned i = 0; i <= AUDIT_LINES_BAD; i++)
        pass(AUDIT_REFUSED, "quota", audit_user(1, 1), MINUTE, NULL);
    cr_assert_eq(audit_limit_next(&limit, MINUTE + 5), 2 * MINUTE);
    uint64_t sum;
    cr_assert_eq(told(false, 2 * MINUTE, &sum), 1);
    cr_assert_eq(audit_limit_next(&limit, 2 * MINUTE), CLOCK_NEVER);
}

/* ---- what ------------------------------------------------------------------------------------ */

static const char hostile[] = "a\"b\\c\n\x1b[2J\xe2\x80\xae\xff\xc2\x9b,\"uid\":0";

static const char *json_of(const struct audit_who *who, const char *text) {
    static char line[AUDIT_LINE_MAX];
    struct audit_record r;
    audit_record_fill(&r, AUDIT_REFUSED, "quota.leases", who, audit_object("lease", 18), text);
    size_t n = audit_record_json(&r, line);
    cr_assert_eq(n, strlen(line));
    for (size_t i = 0; i + 1 < n; i++)
        cr_assert(line[i] >= 0x20 && line[i] < 0x7f, "byte %zu is 0x%02x", i,
                  (unsigned char)line[i]);
    cr_assert_eq(line[n - 1], '\n');
    return line;
}

Test(audit_record, a_line_is_json_of_printable_ascii_whatever_is_in_the_text) {
    struct audit_who who = audit_user(1000, 42);
    const char *line = json_of(&who, hostile);
    cr_assert_not_null(strstr(line, "\"event\":\"refused\",\"cause\":\"quota.leases\",\"uid\":1000,"
                                    "\"pid\":42,\"object\":\"lease\",\"id\":18,\"text\":\"a\\\"b"
                                    "\\\\x5cc\\\\x0a\\\\x1b[2J\\\\xe2\\\\x80\\\\xae\\\\xff\\\\xc2"
                                    "\\\\x9b,\\\"uid\\\":0\"}\n"),
                       "%s", line);
    who.tenant = "blue";
    line = json_of(&who, "x");
    cr_assert_not_null(strstr(line, "\"uid\":1000,\"pid\":42,\"tenant\":\"blue\",\"object\""), "%s",
                       line);
    who = audit_peer(hostile, hostile);
    line = json_of(&who, "x");
    cr_assert_not_null(strstr(line, "\"peer\":\"a\\\"b"));
    cr_assert_null(strstr(line, "\"uid\":0,"));
}

Test(audit_record, the_longest_texts_fit) {
    static char text[1000];
    memset(text, 0x1b, sizeof(text) - 1);
    struct audit_who who = audit_peer(text, text);
    const char *line = json_of(&who, text);
    cr_assert_str_eq(line + strlen(line) - 3, "\"}\n", "%s", line);
}

/* ---- where ----------------------------------------------------------------------------------- */

static char path[200];

static void make_path(void) {
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/audit.XXXXXX", dir ? dir : "/tmp");
    close(mkstemp(path));
    unlink(path);
}

static size_t read_file(const char *name, char *buf, size_t size) {
    FILE *f = fopen(name, "r");
    size_t n = f ? fread(buf, 1, size - 1, f) : 0;
    buf[n] = '\0';
    if (f)
        fclose(f);
    return n;
}

static size_t lines_of(const char *text) {
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

Test(audit_file, it_is_made_for_us_alone_and_what_others_prepared_is_refused, .init = make_path) {
    struct audit_file f = {.fd = -1};
    struct error why;
    struct stat st;
    char other[220];
    umask(0);
    cr_assert_eq(audit_file_open(&f, path, &why), 0, "%s", why.text);
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0600);
    snprintf(other, sizeof(other), "%s.link", path);
    cr_assert_eq(symlink(path, other), 0);
    cr_assert_eq(audit_file_open(&f, other, &why), RDMAD_E_CONFIG, "a link");
    cr_assert_eq(audit_file_look(other, &why), RDMAD_E_CONFIG, "a link");
    unlink(other);
    cr_assert_eq(mkfifo(other, 0600), 0);
    cr_assert_eq(audit_file_open(&f, other, &why), RDMAD_E_CONFIG, "a FIFO");
    cr_assert_eq(audit_file_look(other, &why), RDMAD_E_CONFIG, "a FIFO");
    unlink(other);
    cr_assert_eq(audit_file_look(other, &why), 0, "%s", why.text);
    cr_assert_neq(access(other, F_OK), 0, "a look has made it");
    cr_assert_eq(audit_file_look(path, &why), 0, "%s", why.text);
    cr_assert_eq(chmod(path, 0620), 0);
    cr_assert_eq(audit_file_open(&f, path, &why), RDMAD_E_CONFIG, "others can write");
    cr_assert_not_null(strstr(why.text, "chmod"));
    cr_assert_eq(audit_file_look(path, &why), RDMAD_E_CONFIG, "others can write");
    cr_assert(audit_file_append(&f, "x\n", 2), "the one that was open goes on");
    audit_file_close(&f);
    unlink(path);
}

/* A service manager does not try again after a wrong setting. */
Test(audit_file, what_may_pass_is_no_wrong_setting, .init = make_path) {
    struct audit_file f = {.fd = -1};
    struct error why;
    struct rlimit files;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    rlim_t before = files.rlim_cur;
    files.rlim_cur = 0;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    int rc = audit_file_open(&f, path, &why);
    files.rlim_cur = before;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    cr_assert_eq(rc, RDMAD_E_SYSTEM, "%s", why.text);
}

Test(audit_file, after_a_torn_line_the_next_is_whole, .init = make_path) {
    struct audit_file f = {.fd = -1};
    char text[100];
    cr_assert_eq(audit_file_open(&f, path, NULL), 0);
    cr_assert(audit_file_append(&f, "{\"ha", 4));
    audit_file_close(&f);
    cr_assert_eq(audit_file_open(&f, path, NULL), 0);
    cr_assert(audit_file_append(&f, "{}\n", 3));
    audit_file_close(&f);
    read_file(path, text, sizeof(text));
    cr_assert_str_eq(text, "{\"ha\n{}\n");
    unlink(path);
}

Test(audit, events_go_to_the_file_and_to_another_one_after_a_reload, .init = make_path) {
    static char text[65536];
    char moved[220];
    struct error why;
    log_init(LOG_ERR, 1);
    cr_assert_eq(audit_start(path, &why), 0, "%s", why.text);
    for (unsigned i = 0; i < 1000; i++)
        AUDIT(VIOLATED, "ring", audit_user(7, 1), audit_object("session", i), ("ring %u", i));
    snprintf(moved, sizeof(moved), "%s.1", path);
    for (unsigned i = 0; i < 500 && lines_of(text) < AUDIT_LINES_BAD; i++) {
        poll(NULL, 0, 20);
        read_file(path, text, sizeof(text));
    }
    cr_assert_eq(rename(path, moved), 0);
    audit_reopen(path);
    AUDIT(ADMIN, "reload", audit_user(0, 1), audit_nothing(), ("settings reloaded"));
    audit_stop();
    read_file(moved, text, sizeof(text));
    cr_assert_eq(lines_of(text), AUDIT_LINES_BAD, "%s", text);
    read_file(path, text, sizeof(text));
    cr_assert_eq(lines_of(text), 2, "%s", text);
    cr_assert_not_null(strstr(text, "\"event\":\"admin\",\"cause\":\"reload\",\"uid\":0"));
    cr_assert_not_null(strstr(text, "of uid 7, 990 more like it were not written"), "%s", text);
    unlink(path);
    unlink(moved);
}

/* The log is a pipe that nobody reads and that is full: the thread hangs in its write. */
Test(audit, who_reports_never_waits_for_a_log_that_hangs, .timeout = 60) {
    int fds[2], saved = dup(STDERR_FILENO);
    char junk[4096];
    static char said[1 << 20];
    size_t used = 0;
    ssize_t n;
    cr_assert_eq(pipe(fds), 0);
    fcntl(fds[1], F_SETFL, O_NONBLOCK);
    memset(junk, 'x', sizeof(junk));
    while (write(fds[1], junk, sizeof(junk)) > 0)
        ;
    fcntl(fds[1], F_SETFL, 0);
    log_init(LOG_INFO, 1);
    dup2(fds[1], STDERR_FILENO);
    close(fds[1]);
    cr_assert_eq(audit_start("", NULL), 0);
    for (unsigned i = 0; i < 600; i++)
        AUDIT(GRANTED, "lease", audit_user(i, 1), audit_object("lease", i), ("granted"));
    audit_reopen("");
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    for (unsigned i = 0; i < 500 && !strstr(said, "too slow"); i++) {
        while ((n = read(fds[0], said + used, sizeof(said) - 1 - used)) > 0)
            used += (size_t)n;
        poll(NULL, 0, 20);
    }
    dup2(saved, STDERR_FILENO);
    audit_stop();
    cr_assert_not_null(strstr(said, "events were not written: the log or the disk was too slow"));
    cr_assert_not_null(
        strstr(said, "audit=granted cause=lease uid=0 pid=1 object=lease object_id=0"));
}
