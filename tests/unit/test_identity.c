/* SPDX-License-Identifier: MIT */
/*
 * The daemon's own identity: when it warns that its certificate was not renewed.
 */
#include "daemon/base/log.h"
#include "daemon/state/identity.h"
#include "tests/unit/lease_rig.h"
#include "tests/unit/pki_rig.h"
#include <criterion/criterion.h>
#include <string.h>
#include <time.h>

#define MINUTE 60
#define DAY 86400

static char dir[RIG_PATH], cluster[RIG_PATH];
static unsigned warnings; /* in the log */

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

static void nothing_changed(struct state *st) {
    (void)st;
}

/* One whose certificate the CA has just given for so long. */
static const struct pki_identity *begin(int64_t seconds) {
    struct error err;
    rig_node(dir, cluster, (struct pki_terms){.name = "n", .not_after = wall + seconds});
    cr_assert_eq(identity_start(&rig.st, dir, nothing_changed, &err), 0, "%s", err.text);
    return identity_of(&rig.st);
}

/* What it says at that time; it has looked at its files, too. */
static const char *warning_at(int64_t seconds) {
    static char text[RDMAD_TEXT_MAX + 1];
    wall = seconds;
    rig_advance(IDENTITY_LOOK_NS);
    return identity_warning(&rig.st, text);
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
