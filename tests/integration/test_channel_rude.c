/* SPDX-License-Identifier: MIT */
/*
 * test_channel_rude.c - clients that bring back ends of channels that were never theirs, or never
 * were, beside others that do so in earnest.
 */
#include "common/errors.h"
#include "tests/integration/chan_stream.h"
#include "tests/support/rawclient.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A session that has resumed and brought nothing back yet. */
static int resumed(struct tdaemon *d) {
    struct rdmad_resume_offer_req req = {.reserved = 0};
    struct rdmad_resume_proof proof;
    struct raw_packet reply;
    int status = RDMAD_E_BUSY, sock = raw_session(tdaemon_dir(d));
    int rc = raw_request(sock, RDMAD_MSG_RESUME_OFFER, &req, sizeof(req), &reply);
    if (rc == RDMAD_E_UNSUPPORTED)
        skip("%s", raw_text(&reply));
    CHECK(rc == 0, "%s", raw_text(&reply));
    memcpy(&proof, raw_body(&reply), sizeof(proof));
    close(sock);
    for (unsigned tries = 0; status == RDMAD_E_BUSY && tries < TEST_PATIENCE_MS; tries++) {
        sleep_ms(1); /* its first session is still being ended */
        sock = raw_session(tdaemon_dir(d));
        status = raw_request(sock, RDMAD_MSG_SESSION_RESUME, &proof, sizeof(proof), &reply);
        if (status)
            close(sock);
    }
    CHECK(status == 0, "%s", raw_text(&reply));
    return sock;
}

/* The first end that a session can have. */
static struct rdmad_channel_resume_req an_end(bool accepted, uint8_t key) {
    struct rdmad_channel_resume_req req = {
        .channel = UINT64_C(1) << 32, .accepted = accepted, .peer_uid = (uint32_t)getuid()};
    memset(req.key, key, sizeof(req.key));
    strcpy(req.uri, accepted ? "never" : "rdmad:///never");
    return req;
}

static int bring(int sock, const struct rdmad_channel_resume_req *req, struct raw_packet *reply) {
    return raw_request(sock, RDMAD_MSG_CHANNEL_RESUME, req, sizeof(*req), reply);
}

static void refused(int sock, const struct rdmad_channel_resume_req *req, int code,
                    const char *what) {
    struct raw_packet reply;
    int status = bring(sock, req, &reply);
    CHECK(status == code, "%s: %s, %s", what, rdmad_error_name(status),
          status ? raw_text(&reply) : "");
}

static void what_makes_no_sense_is_refused_and_leaves_nothing(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    int sock = resumed(d), fresh = raw_session(tdaemon_dir(d));
    json_t *before = tdaemon_objects(d);
    struct rdmad_channel_resume_req good = an_end(true, 1), req = good;
    refused(fresh, &req, RDMAD_E_PROTOCOL, "of a session that was not resumed");
    req.channel = 0;
    refused(sock, &req, RDMAD_E_HANDLE, "number 0");
    req.channel = UINT64_MAX;
    refused(sock, &req, RDMAD_E_HANDLE, "the last number");
    req = good;
    req.accepted = 2;
    refused(sock, &req, RDMAD_E_RESERVED, "accepted 2");
    req = good;
    req.flags = 2;
    refused(sock, &req, RDMAD_E_RESERVED, "an unknown flag");
    req = good;
    memset(req.peer_node, 'x', sizeof(req.peer_node));
    refused(sock, &req, RDMAD_E_PROTOCOL, "a node's name without end");
    memset(&req, 'x', sizeof(req));
    refused(sock, &req, RDMAD_E_HANDLE, "x");
    req = good;
    strcpy(req.uri, "rdmad:///never");
    refused(sock, &req, RDMAD_E_URI, "a URI of an end that was accepted");
    req = an_end(false, 1);
    strcpy(req.uri, "rdmad://127.0.0.1:1/lease/1?key=00000000000000000000000000000000");
    refused(sock, &req, RDMAD_E_URI, "a lease's URI");
    memset(req.uri, 0, sizeof(req.uri));
    refused(sock, &req, RDMAD_E_URI, "no URI");
    tdaemon_expect_objects(d, before);
    close(sock);
    close(fresh);
    tdaemon_stop(d);
}

static void one_number_and_one_key_are_one_end(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    int sock = resumed(d), other = resumed(d);
    struct rdmad_channel_resume_req req = an_end(true, 1);
    struct raw_packet reply;
    json_t *before = tdaemon_objects(d);
    CHECK(bring(sock, &req, &reply) == 0, "%s", raw_text(&reply));
    refused(sock, &req, RDMAD_E_EXISTS, "the same number");
    CHECK(bring(other, &req, &reply) == 0, "%s", raw_text(&reply)); /* and told that it is over */
    CHECK(raw_recv(other, &reply, (int)TEST_PATIENCE_MS), "nothing is said");
    struct rdmad_ev_channel_closed e;
    memcpy(&e, raw_body(&reply), sizeof(e));
    CHECK(reply.header.type == RDMAD_EV_CHANNEL_CLOSED && e.reason == RDMAD_E_EXISTS, "%d: %s",
          e.reason, e.text);
    close(sock);
    close(other);
    sock = raw_session(tdaemon_dir(d));
    other = raw_session(tdaemon_dir(d)); /* in their place */
    tdaemon_expect_objects(d, before);
    close(sock);
    close(other);
    tdaemon_stop(d);
}

static unsigned ends_in_state(struct tdaemon *d, const char *state) {
    json_t *shown = tdaemon_call(d, "channel.show", NULL), *row;
    unsigned n = 0;
    size_t i;
    json_array_foreach(json_object_get(shown, "channels"), i, row) n +=
        !strcmp(json_string_value(json_object_get(row, "state")), state);
    json_decref(shown);
    return n;
}

/* Whoever knows a channel's key is one of its two programs; but the other end is for the other. */
static void an_end_is_met_only_by_whom_it_was_with(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    int sock = resumed(d), other = resumed(d);
    struct rdmad_channel_resume_req accepted = an_end(true, 1), connected = an_end(false, 1);
    struct raw_packet reply;
    accepted.peer_uid = 12345;
    CHECK(bring(sock, &accepted, &reply) == 0, "%s", raw_text(&reply));
    CHECK(bring(other, &connected, &reply) == 0, "%s", raw_text(&reply));
    sleep_ms(300);
    CHECK(ends_in_state(d, "away") == 2, "another user's end is met");
    close(sock);
    close(other);
    sock = resumed(d);
    other = resumed(d);
    connected = an_end(false, 2);
    accepted = an_end(true, 3);
    CHECK(bring(sock, &accepted, &reply) == 0, "%s", raw_text(&reply));
    CHECK(bring(other, &connected, &reply) == 0, "%s", raw_text(&reply));
    sleep_ms(300);
    CHECK(ends_in_state(d, "open") == 0, "an end of another key is met");
    close(sock);
    close(other);
    sock = resumed(d);
    other = resumed(d);
    accepted = an_end(true, 2);
    CHECK(bring(other, &connected, &reply) == 0, "%s", raw_text(&reply));
    CHECK(bring(sock, &accepted, &reply) == 0, "%s", raw_text(&reply));
    for (unsigned tries = 0; ends_in_state(d, "open") != 2; tries++) {
        CHECK(tries < TEST_PATIENCE_MS / 10, "those that belong together do not meet");
        sleep_ms(10);
    }
    close(sock);
    close(other);
    tdaemon_stop(d);
}

/* As many ends as it may have, of keys that it has made up. */
static void bring_many(int sock, uint8_t key) {
    struct raw_packet reply;
    int status = 0;
    unsigned n = 0;
    for (; status == 0 && n < 100000; n++) {
        struct rdmad_channel_resume_req req = an_end(n % 2, key);
        req.channel += n;
        memcpy(req.key, &n, sizeof(n));
        if (n % 2 == 0)
            strcpy(req.uri, "rdmad://127.0.0.2:9/never");
        status = bring(sock, &req, &reply);
    }
    CHECK(status == RDMAD_E_LIMIT || status == RDMAD_E_HANDLE, "after %u: %s", n,
          rdmad_error_name(status));
    CHECK(n > 10, "only %u", n);
}

static void others_notice_nothing_of_ends_that_are_made_up(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL), *b = tdaemon_start("127.0.0.2", NULL);
    close(resumed(a)); /* or this is skipped */
    struct chan_stream *s = chan_stream_start(a, b, false);
    for (unsigned i = 0; i < test_count(100); i++) {
        struct tdaemon *d = i % 2 ? a : b;
        chan_stream_expect_progress(s, "before a daemon is killed");
        tdaemon_kill(d);
        tdaemon_restart(d);
        int one = resumed(d), two = resumed(d);
        bring_many(one, (uint8_t)i);
        bring_many(two, (uint8_t)i);
        chan_stream_expect_progress(s, "beside ends that are made up");
        close(one);
        close(two);
    }
    chan_stream_stop(s);
    tdaemon_stop(a);
    tdaemon_stop(b);
}

TEST_MAIN(CASE(what_makes_no_sense_is_refused_and_leaves_nothing),
          CASE(one_number_and_one_key_are_one_end), CASE(an_end_is_met_only_by_whom_it_was_with),
          CASE(others_notice_nothing_of_ends_that_are_made_up))
