/* SPDX-License-Identifier: MIT */
/*
 * The library agrees with a daemon on a version of their protocol: the highest that both speak,
 * also with one that knows nothing of that; and with the next daemon anew.
 */
#include "common/versions.h"
#include "tests/unit/fake_daemon.h"
#include <criterion/criterion.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>

/* In the place of those of the build. */
const struct rdmad_versions rdmad_abi_versions = {2, 4};

static struct fake_daemon fake;
static uint16_t lowest, highest; /* which the daemon speaks */
static uint16_t proposed[8];     /* atomic: by the library, in turn */
static unsigned proposals, late; /* late: requests after HELLO that are of another version */

/* As agree_version in serve.c. */
static bool answer(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    (void)body;
    if (h->type != RDMAD_MSG_HELLO) {
        late += h->version != f->version;
        return false;
    }
    if (proposals < 8)
        proposed[proposals++] = h->version;
    f->version = h->version > highest ? highest : h->version;
    if (h->version >= lowest && h->version <= highest)
        return false;
    fake_refuse(f, h, RDMAD_E_VERSION, "that is not spoken here");
    return true;
}

static int open_at(uint16_t from, uint16_t to, rdmad_session **s) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    memset(&fake, 0, sizeof(fake));
    lowest = from;
    highest = to;
    proposals = late = 0;
    fake.hook = answer;
    fake_start(&fake);
    o.runtime_dir = fake.dir;
    o.resume = 0;
    return rdmad_open(&o, s);
}

static void agrees(uint16_t from, uint16_t to, uint16_t on, unsigned tries) {
    rdmad_session *s = NULL;
    rdmad_pool *pool;
    cr_assert_eq(open_at(from, to, &s), 0, "%s", rdmad_last_error(NULL));
    cr_expect_eq(fake.version, on, "%u", fake.version);
    cr_expect_eq(proposals, tries);
    cr_expect_eq(proposed[0], 4, "the highest comes first");
    cr_expect_eq(rdmad_pool_create(s, 4096, 0, &pool), 0, "%s", rdmad_last_error(s));
    rdmad_close(s);
    fake_stop(&fake);
    cr_expect_eq(late, 0, "what came after HELLO was of another version");
}

Test(client_versions, the_highest_that_both_speak_is_used, .timeout = 20) {
    agrees(2, 4, 4, 1);
    agrees(4, 9, 4, 1);
    agrees(1, 3, 3, 2);
    agrees(2, 2, 2, 2); /* as one that speaks one version alone, and refuses all others */
}

static void refuses(uint16_t from, uint16_t to) {
    rdmad_session *s = NULL;
    cr_expect_eq(open_at(from, to, &s), RDMAD_E_VERSION, "%s", rdmad_last_error(NULL));
    const char *said = rdmad_last_error(NULL);
    cr_expect(strstr(said, "this librdmad speaks versions 2 to 4") &&
                  strstr(said, "that is not spoken here"),
              "%s", said);
    cr_expect_eq(proposals, 1);
    fake_stop(&fake);
}

Test(client_versions, a_daemon_that_speaks_none_of_ours_is_told_of_with_both, .timeout = 20) {
    refuses(5, 9);
    refuses(1, 1);
}

/* Each time another version that is no answer to what was proposed. */
static bool mislead(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    (void)body;
    proposed[proposals++ % 8] = h->version;
    f->version = proposals % 2 ? 3 : 4;
    fake_refuse(f, h, RDMAD_E_VERSION, "not that one");
    return true;
}

Test(client_versions, a_daemon_that_never_agrees_is_left, .timeout = 20) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *s = NULL;
    memset(&fake, 0, sizeof(fake));
    proposals = 0;
    fake.hook = mislead;
    fake_start(&fake);
    o.runtime_dir = fake.dir;
    o.resume = 0;
    cr_expect_eq(rdmad_open(&o, &s), RDMAD_E_VERSION, "%s", rdmad_last_error(NULL));
    cr_expect_eq(proposals, 2);
    fake_stop(&fake);
}

/* After HELLO the version is agreed on. */
static bool change(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    (void)body;
    f->version = h->type == RDMAD_MSG_HELLO ? h->version : 3;
    return false;
}

Test(client_versions, another_version_than_agreed_on_ends_the_session, .timeout = 20) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    rdmad_pool *pool;
    memset(&fake, 0, sizeof(fake));
    fake.hook = change;
    fake_start(&fake);
    o.runtime_dir = fake.dir;
    o.resume = 0;
    cr_assert_eq(rdmad_open(&o, &s), 0, "%s", rdmad_last_error(NULL));
    cr_expect_eq(rdmad_pool_create(s, 4096, 0, &pool), RDMAD_E_DAEMON_LOST);
    cr_expect(strstr(rdmad_last_error(s), "another version than was agreed on"), "%s",
              rdmad_last_error(s));
    rdmad_close(s);
    fake_stop(&fake);
}

Test(client_versions, the_next_daemon_is_agreed_with_anew, .timeout = 20) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    struct rdmad_event e = RDMAD_EVENT_INIT;
    rdmad_session *s;
    memset(&fake, 0, sizeof(fake));
    proposals = late = 0;
    lowest = 2, highest = 3;
    fake.hook = answer;
    fake.outlived = true;
    fake_start(&fake);
    o.runtime_dir = fake.dir;
    cr_assert_eq(rdmad_open(&o, &s), 0, "%s", rdmad_last_error(NULL));
    static const uint16_t next[] = {4, 2}; /* a newer one comes, and then an older */
    for (unsigned i = 0; i < 2; i++) {
        fake_go(&fake);
        highest = next[i];
        fake_come_back(&fake);
        cr_assert_eq(rdmad_next_event(s, 10000, &e), 0, "%s", rdmad_last_error(s));
        cr_expect_eq(e.type, RDMAD_EVENT_SESSION_RESUMED, "%s", e.text);
        cr_expect_eq(fake.version, next[i]);
    }
    rdmad_close(s);
    fake_stop(&fake);
    cr_expect_eq(late, 0);
}
