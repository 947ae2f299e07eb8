/* SPDX-License-Identifier: MIT */
/*
 * The daemon's own identity: when files that have changed are tried again, and when it warns that
 * its certificate was not renewed.
 */
#include "daemon/base/log.h"
#include "daemon/state/identity.h"
#include "tests/unit/lease_rig.h"
#include "tests/unit/pki_rig.h"
#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MINUTE 60
#define DAY 86400

static char dir[RIG_PATH], cluster[RIG_PATH];
static unsigned warnings, errors; /* in the log */
static unsigned changes;          /* of the identity */

/* The clock on the wall is the tests', and stands still. */
static time_t wall;

time_t __wrap_time(time_t *out);
time_t __wrap_time(time_t *out) {
    if (out)
        *out = wall;
    return wall;
}

void __wrap_log_write(int level, struct log_limit *limit, uint64_t whose, const char *text,
                      const struct log_field *fields);
void __wrap_log_write(int level, struct log_limit *limit, uint64_t whose, const char *text,
                      const struct log_field *fields) {
    (void)limit, (void)whose, (void)text, (void)fields;
    warnings += level == LOG_WARNING;
    errors += level == LOG_ERR;
}

static bool no_memory; /* of ours; OpenSSL has its own */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return no_memory ? NULL : __real_calloc(count, size);
}

static bool openssl_fails;
static unsigned openssl_failures;

int __real_pki_server_context(const struct pki_identity *id, SSL_CTX **out, struct pki_error *err);
int __wrap_pki_server_context(const struct pki_identity *id, SSL_CTX **out, struct pki_error *err);
int __wrap_pki_server_context(const struct pki_identity *id, SSL_CTX **out, struct pki_error *err) {
    if (!openssl_fails)
        return __real_pki_server_context(id, out, err);
    openssl_failures++;
    return pki_fail(err, RDMAD_E_CONFIG, "TLS cannot use the certificate and key of it");
}

static void up(void) {
    wall = 1800000000;
    rig_up();
    rig_init(cluster, "ca");
}

static void down(void) {
    identity_stop(&rig.st);
    rig_down();
}

TestSuite(identity, .init = up, .fini = down);

static void note_change(struct state *st) {
    (void)st;
    changes++;
}

/* One whose certificate the CA has just given for so long. */
static const struct pki_identity *begin(int64_t seconds) {
    struct error err;
    rig_node(dir, cluster, (struct pki_terms){.name = "n", .not_after = wall + seconds});
    cr_assert_eq(identity_start(&rig.st, dir, note_change, &err), 0, "%s", err.text);
    return identity_of(&rig.st);
}

/* What it says at that time; it has looked at its files, too. */
static const char *warning_at(int64_t seconds) {
    static char text[RDMAD_TEXT_MAX + 1];
    wall = seconds;
    rig_advance(IDENTITY_LOOK_NS);
    return identity_warning(&rig.st, text);
}

/* ---- files that have changed --------------------------------------------------------------- */

static void lack_memory(bool lacks) {
    no_memory = lacks;
}

/* One more can be open, which is enough to see that the files have changed. */
static void lack_descriptors(bool lacks) {
    static struct rlimit before;
    struct rlimit few;
    if (!lacks) {
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        return;
    }
    int lowest = dup(0);
    cr_assert_geq(lowest, 0);
    close(lowest);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = (rlim_t)lowest + 1;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
}

static void expect_another_try(void (*lack)(bool), const char *words) {
    begin(90 * DAY);
    rig_copy(cluster, "revoked.crl", dir, "revoked.crl");
    lack(true);
    for (int i = 0; i < 3; i++) {
        const char *text = warning_at(wall);
        cr_assert(strstr(text, words), "%s", text);
        cr_assert_eq(errors, 1, "%u lines in the log", errors);
    }
    lack(false);
    cr_assert_null(identity_of(&rig.st)->crls);
    cr_assert_str_empty(warning_at(wall));
    cr_assert_not_null(identity_of(&rig.st)->crls, "the list is not in use");
    warning_at(wall);
    cr_assert_eq(changes, 1);
    cr_assert_eq(errors, 1);
}

Test(identity, what_memory_was_wanting_for_is_tried_again) {
    expect_another_try(lack_memory, "out of memory");
}

Test(identity, so_is_what_descriptors_were_wanting_for) {
    expect_another_try(lack_descriptors, "Too many open files");
}

Test(identity, files_that_are_wrong_are_in_the_log_once_until_they_change) {
    struct error err;
    begin(90 * DAY);
    rig_write(dir, "revoked.crl", "nothing\n", 0644);
    for (int i = 0; i < 3; i++) {
        cr_assert(strstr(warning_at(wall), "no list of revoked"));
        rig_advance(IDENTITY_AGAIN_NS);
        cr_assert_eq(errors, 1);
    }
    rig_write(dir, "revoked.crl", "nothing either\n", 0644);
    cr_assert(strstr(warning_at(wall), "no list of revoked"));
    cr_assert_eq(errors, 2);
    cr_assert_eq(identity_reload(&rig.st, true, &err), RDMAD_E_CONFIG);
    cr_assert_eq(errors, 3, "who asks for it is told");
    rig_copy(cluster, "revoked.crl", dir, "revoked.crl");
    cr_assert_str_empty(warning_at(wall));
    cr_assert_not_null(identity_of(&rig.st)->crls);
}

/* It says that something is wrong with the certificate then. */
Test(identity, what_openssl_wanted_memory_for_is_tried_again_a_minute_later) {
    begin(90 * DAY);
    rig_copy(cluster, "revoked.crl", dir, "revoked.crl");
    openssl_fails = true;
    for (int i = 0; i < 3; i++) {
        cr_assert(strstr(warning_at(wall), "TLS cannot use"));
        cr_assert_eq(openssl_failures, 1, "it is tried again at once");
    }
    rig_advance(IDENTITY_AGAIN_NS);
    cr_assert_eq(openssl_failures, 2);
    cr_assert_eq(errors, 1);
    openssl_fails = false;
    rig_advance(IDENTITY_AGAIN_NS);
    cr_assert_not_null(identity_of(&rig.st)->crls, "the list is not in use");
    cr_assert_str_empty(warning_at(wall));
}

/* ---- warnings ------------------------------------------------------------------------------ */

static void expect_patience(int64_t days) {
    const struct pki_identity *id = begin(days * DAY);
    int64_t due = pki_renewal_time(id);
    cr_assert_str_empty(warning_at(wall));
    cr_assert_str_empty(warning_at(due - DAY / 4), "%d days", (int)days);
    cr_assert_str_empty(warning_at(due - 1), "%d days", (int)days);
    cr_assert_str_empty(warning_at(due + 59 * MINUTE), "%d days", (int)days);
    cr_assert_eq(warnings, 0);
    cr_assert(strstr(warning_at(due + 61 * MINUTE), "was not renewed"), "%d days", (int)days);
    cr_assert_eq(warnings, 1);
}

Test(identity, one_of_ninety_days_is_not_late_before_its_renewal_is_due) {
    expect_patience(90);
}

Test(identity, nor_is_one_of_three_days) {
    expect_patience(3);
}

Test(identity, nor_is_one_of_a_day) {
    expect_patience(1);
}

Test(identity, of_one_for_an_hour_it_is_told_before_its_end) {
    const struct pki_identity *id = begin(60 * MINUTE);
    cr_assert_str_empty(warning_at(pki_renewal_time(id)));
    cr_assert(strstr(warning_at(id->not_after - 1), "was not renewed"));
}

Test(identity, of_one_for_a_year_it_is_told_at_thirty_days) {
    const struct pki_identity *id = begin(365 * DAY);
    cr_assert_str_empty(warning_at(id->not_after - 30 * DAY - 1));
    cr_assert(strstr(warning_at(id->not_after - 30 * DAY), "in 30 days"));
}

Test(identity, each_warning_is_in_the_log_once) {
    const struct pki_identity *id = begin(90 * DAY);
    const int64_t at[] = {20 * DAY, 7 * DAY - 1, 2 * DAY, DAY - 1, 1, -1, -DAY};
    const unsigned told[] = {1, 2, 2, 3, 3, 4, 4};
    for (unsigned i = 0; i < sizeof(told) / sizeof(*told); i++) {
        const char *text = warning_at(id->not_after - at[i]);
        cr_assert_eq(warnings, told[i], "%u: %s", warnings, text);
        cr_assert(strstr(text, at[i] < 0 ? "has expired" : "was not renewed"), "%s", text);
    }
}
