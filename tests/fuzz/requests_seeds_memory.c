/* SPDX-License-Identifier: MIT */
/*
 * requests_seeds_memory.c - rings, pools, leases, and memory by request.
 */
#include "tests/fuzz/requests_seed.h"
#include "tests/fuzz/requests_seeds.h"

/* ---- rings and pools ------------------------------------------------------------------------- */

static void make_ring(unsigned who) {
    ask(who, RDMAD_MSG_RING_CREATE);
    with32(AT(ring_create, sq_entries), 4);
}

void seed_ring(void) {
    begin(0);
    make_ring(0);
    settle();
    ask_about(0, RDMAD_MSG_RING_READY, THING_RING, 0);
    settle();
    prepare(0, 0);
    prepare(1, 0);
    ask_about(0, RDMAD_MSG_RING_READY, THING_RING, 0);
    settle();
    ask_about(0, RDMAD_MSG_RING_READY, THING_RING, 0);
    ask_about(1, RDMAD_MSG_RING_DESTROY, THING_RING, 0);
    ask_about(0, RDMAD_MSG_RING_DESTROY, THING_RING, 0);
    settle();
    ask_about(0, RDMAD_MSG_RING_DESTROY, THING_RING, 0);
}

void seed_ring_wrong(void) {
    begin(0);
    ask(0, RDMAD_MSG_RING_CREATE);
    ask(0, RDMAD_MSG_RING_CREATE);
    with(AT(ring_create, reserved), 1);
    ask(0, RDMAD_MSG_RING_CREATE);
    with32(AT(ring_create, sq_entries), RDMAD_RING_MAX_ENTRIES + 1);
    ask(0, RDMAD_MSG_RING_CREATE);
    with32(AT(ring_create, sq_entries), 1);
    with32(AT(ring_create, cq_entries), UINT32_MAX);
    settle();
    ask(0, RDMAD_MSG_RING_READY);
    make_ring(0);
    make_ring(0);
    make_ring(0);
    move_with(MOVE_WORK, 1);
    move_with(MOVE_GO, 0);
}

void seed_ring_refused(void) {
    begin(0);
    make_ring(0);
    settle();
    prepare(0, 0);
    prepare(1, 0);
    ask_about(0, RDMAD_MSG_RING_READY, THING_RING, 0);
    ask_about(0, RDMAD_MSG_RING_READY, THING_RING, 0);
    move_with(MOVE_WORK, 2);
    move_with(MOVE_REFUSE, 0);
    ask_about(0, RDMAD_MSG_RING_READY, THING_RING, 0);
    ask_about(0, RDMAD_MSG_RING_DESTROY, THING_RING, 0);
}

void seed_unsent(void) {
    begin(0);
    move(MOVE_UNSENT, 0);
    ask(0, RDMAD_MSG_LIFELINE);
    ask(0, RDMAD_MSG_LIFELINE);
    ask(0, RDMAD_MSG_LIFELINE);
    ask(0, RDMAD_MSG_LIFELINE);
    with(AT(lifeline, reserved), 1);
    move(MOVE_UNSENT, 0);
    make_ring(0);
    settle();
    ask(0, RDMAD_MSG_RESUME_OFFER);
    move(MOVE_UNSENT, 0);
    ask(0, RDMAD_MSG_POOL_CREATE);
    with(AT(pool_create, bytes), 4096);
    settle();
    move(MOVE_UNSENT, 0);
    make_ring(0);
    move_with(MOVE_WORK, 2);
    ask(0, RDMAD_MSG_RING_DESTROY); /* it guesses the number */
    with(0, UINT64_C(2) << 32);
    settle();
}

void seed_pool(void) {
    begin(0);
    ask(0, RDMAD_MSG_POOL_CREATE);
    with(AT(pool_create, bytes), 8192);
    settle();
    ask_about(0, RDMAD_MSG_POOL_READY, THING_POOL, 0);
    settle();
    prepare(0, PREPARE_HOLE);
    ask_about(0, RDMAD_MSG_POOL_READY, THING_POOL, 0);
    settle();
    make_pool(0);
    ask_about(0, RDMAD_MSG_POOL_READY, THING_POOL, 0);
    ask_about(2, RDMAD_MSG_POOL_DESTROY, THING_POOL, 0);
    ask_about(0, RDMAD_MSG_POOL_DESTROY, THING_POOL, 0);
    ask_about(0, RDMAD_MSG_POOL_DESTROY, THING_POOL, 0);
    settle();
}

void seed_pool_wrong(void) {
    begin(REQUESTS_POLICY);
    ask(0, RDMAD_MSG_POOL_CREATE);
    ask(0, RDMAD_MSG_POOL_CREATE);
    with32(AT(pool_create, reserved), 1);
    ask(0, RDMAD_MSG_POOL_CREATE);
    with(AT(pool_create, bytes), 1);
    with32(AT(pool_create, flags), RDMAD_POOL_HUGETLB);
    ask(2, RDMAD_MSG_POOL_CREATE);
    with(AT(pool_create, bytes), 1);
    with32(AT(pool_create, flags), RDMAD_POOL_HUGETLB);
    ask(0, RDMAD_MSG_POOL_CREATE);
    with(AT(pool_create, bytes), UINT64_MAX);
    ask(0, RDMAD_MSG_POOL_READY);
    ask(0, RDMAD_MSG_POOL_DESTROY);
}

static void import(unsigned who, unsigned how, uint64_t bytes) {
    ask_how(who, RDMAD_MSG_POOL_IMPORT, how);
    with(AT(pool_import, bytes), bytes);
}

void seed_import(void) {
    begin(0);
    import(0, 0, 8192);
    settle();
    prepare(0, 0);
    ask_about(0, RDMAD_MSG_POOL_READY, THING_POOL, 0);
    settle();
    import(0, PACKET_KEPT, 8192);
    import(0, PACKET_UNSEALED, 8192);
    import(0, 1, 8192);
    import(0, 2, 8192);
    import(0, 3, 8192);
    import(0, 0, 8191);
    settle();
    import(0, 0, 8192);
    with(AT(pool_import, reserved), 1);
    settle();
    import(0, 0, 4096);
    move_with(MOVE_GO, 1);
}

/* ---- leases ---------------------------------------------------------------------------------- */

void seed_lease(void) {
    begin(REQUESTS_GRANTS);
    make_pool(0);
    grant(0, "");
    settle();
    attach(1, 0);
    move_with(MOVE_ANSWER, 0);
    ask_about(0, RDMAD_MSG_LEASE_STAT, THING_LEASE, 0);
    ask_about(0, RDMAD_MSG_LEASE_RENEW, THING_LEASE, 0);
    with(AT(lease_renew, ttl_ns), 1000000000);
    ask_about(0, RDMAD_MSG_LEASE_RENEW, THING_LEASE, 0);
    ask_about(1, RDMAD_MSG_LEASE_KEEP, THING_HANDLE, 0);
    with32(AT(lease_keep, on), 1);
    ask_about(1, RDMAD_MSG_LEASE_RELEASE, THING_HANDLE, 0);
    ask_about(1, RDMAD_MSG_LEASE_RELEASE, THING_HANDLE, 0);
    settle();
    ask_about(1, RDMAD_MSG_LEASE_RELEASE, THING_HANDLE, 0);
    attach(0, 0);
    settle();
    ask_about(0, RDMAD_MSG_LEASE_REVOKE, THING_LEASE, 0);
    settle();
    ask_about(0, RDMAD_MSG_LEASE_REVOKE, THING_LEASE, 0);
    ask_about(0, RDMAD_MSG_LEASE_RENEW, THING_LEASE, 0);
    ask_about(0, RDMAD_MSG_LEASE_STAT, THING_LEASE, 0);
    attach(1, 0);
}

/* What one session has granted, as another names it. */
void seed_lease_of_others(void) {
    begin(0);
    make_pool(0);
    grant(0, "a.lease");
    ask_about(1, RDMAD_MSG_LEASE_RENEW, THING_LEASE, 0);
    with(AT(lease_renew, ttl_ns), 1000000000);
    ask_about(1, RDMAD_MSG_LEASE_STAT, THING_LEASE, 0);
    ask_about(2, RDMAD_MSG_LEASE_REVOKE, THING_LEASE, 0);
    ask_about(1, RDMAD_MSG_LEASE_GRANT, THING_POOL, 0);
    ask_about(0, RDMAD_MSG_POOL_DESTROY, THING_POOL, 0);
    ask_about(0, RDMAD_MSG_LEASE_REVOKE, THING_LEASE, 0);
    settle();
    ask_about(1, RDMAD_MSG_LEASE_REVOKE, THING_LEASE, 0);
    ask_about(1, RDMAD_MSG_LEASE_STAT, THING_LEASE, 0);
}

void seed_lease_refused(void) {
    begin(REQUESTS_GRANTS);
    make_pool(0);
    grant(0, "");
    move_with(MOVE_REFUSE, 0);
    grant(0, "");
    move_with(MOVE_GO, 0);
    make_pool(1);
    grant(1, "");
    settle();
    attach(2, 0);
    move_with(MOVE_REFUSE, 0);
    attach(2, 0);
    move(MOVE_GO, 1);
    byte(0);
    settle();
}

void seed_lease_terms(void) {
    begin(0);
    make_pool(0);
    grant(0, "");
    with32(AT(lease_grant, scope), RDMAD_SCOPE_UID);
    with32(AT(lease_grant, scope_uid), 1001);
    attach(1, 0);
    attach(2, 0);
    grant(0, "");
    with32(AT(lease_grant, max_attaches), 1);
    attach(1, 0);
    attach(2, 0);
    settle();
    ask_about(1, RDMAD_MSG_LEASE_RELEASE, THING_HANDLE, 0);
    settle();
    grant(0, "");
    with32(AT(lease_grant, ends_after), 1);
    grant(0, "");
    with32(AT(lease_grant, scope), RDMAD_SCOPE_PEER);
    with_text(AT(lease_grant, scope_peer), "10.0.0.2");
    attach(1, 0);
    grant(0, "");
    with(AT(lease_grant, offset), 60000);
    grant(0, "");
    with(AT(lease_grant, offset), UINT64_MAX);
    grant(0, "not a name");
    grant(0, "a");
    with_text(AT(lease_grant, name) + 8, "a");
    grant(0, "a");
    grant(0, "a");
    attach_text(1, "rdmad:///a");
    attach_text(1, "rdmad:///a");
    with_text(AT(lease_attach, uri) + 16, "a");
    attach_text(2, "rdmad:///b");
    settle();
    move_with(MOVE_TIME, 30);
}

void seed_attach_wrong(void) {
    begin(REQUESTS_POLICY);
    attach_text(0, "");
    attach_text(0, "http://far/");
    attach_text(0, "rdmad:///b");
    attach_text(0, "rdmad:///a");
    attach_text(0, "rdmad://near:7472/a");
    attach_text(2, "rdmad://far:7472/a");
    attach_text(0, FAR_LEASE);
    with(AT(lease_attach, reserved), 1);
    ask(0, RDMAD_MSG_LEASE_RELEASE);
    ask(0, RDMAD_MSG_LEASE_KEEP);
    ask(0, RDMAD_MSG_LEASE_KEEP);
    with32(AT(lease_keep, on), 2);
    ask(0, RDMAD_MSG_LEASE_DELEGATE);
    ask(0, RDMAD_MSG_LEASE_HAND_OVER);
    attach_text(0, "a");
    with_text(AT(lease_attach, uri) + 16, "a");
}

/* The policy leaves nothing of a lease's rights. */
void seed_attach_no_rights(void) {
    begin(REQUESTS_POLICY);
    make_pool(2);
    ask(2, RDMAD_MSG_LEASE_GRANT);
    terms(0, "", RDMAD_RIGHT_WRITE, 0);
    with32(AT(lease_grant, scope), RDMAD_SCOPE_UID);
    with32(AT(lease_grant, scope_uid), 1000);
    attach(0, 0);
    settle();
    make_pool(0);
    ask(0, RDMAD_MSG_LEASE_GRANT);
    terms(0, "", RDMAD_RIGHT_READ | RDMAD_RIGHT_DELEGATE, 0);
    attach(1, 0);
    settle();
    delegate(1, 4096);
    ask_about(1, RDMAD_MSG_LEASE_DELEGATE, THING_HANDLE, 0);
    with32(AT(lease_delegate, rights), RDMAD_RIGHT_WRITE);
    grant(2, "b");
    grant(0, "b");
}

void seed_delegate(void) {
    begin(REQUESTS_GRANTS);
    make_pool(0);
    grant(0, "");
    settle();
    attach(1, 0);
    settle();
    delegate(1, 4096);
    delegate(1, 0);
    delegate(1, 100000);
    ask_about(1, RDMAD_MSG_LEASE_DELEGATE, THING_HANDLE, 0);
    with32(AT(lease_delegate, rights), 16);
    attach(2, 0);
    settle();
    delegate(2, 4096);
    attach(0, 0);
    settle();
    ask_about(0, RDMAD_MSG_LEASE_STAT, THING_LEASE, 1);
    ask_about(1, RDMAD_MSG_LEASE_RELEASE, THING_HANDLE, 2);
    ask_about(0, RDMAD_MSG_LEASE_REVOKE, THING_LEASE, 1);
    delegate(2, 4096);
    settle();
    delegate(2, 4096);
    ask_about(2, RDMAD_MSG_LEASE_KEEP, THING_HANDLE, 1);
    ask_about(2, RDMAD_MSG_LEASE_RELEASE, THING_HANDLE, 1);
}

/* ---- leases of other daemons ----------------------------------------------------------------- */

void seed_remote(void) {
    begin(0);
    attach_text(0, FAR_LEASE);
    peer(0, 0);
    settle();
    ask_about(0, RDMAD_MSG_LEASE_KEEP, THING_HANDLE, 0);
    with32(AT(lease_keep, on), 1);
    ask_about(0, RDMAD_MSG_LEASE_KEEP, THING_HANDLE, 0);
    with32(AT(lease_keep, on), 1);
    peer(0, 0);
    ask_about(0, RDMAD_MSG_LEASE_KEEP, THING_HANDLE, 0);
    with32(AT(lease_keep, on), 1);
    peer(0, PEER_LOST);
    ask_about(0, RDMAD_MSG_LEASE_KEEP, THING_HANDLE, 0);
    delegate(0, 4096);
    peer(0, 0);
    delegate(0, 100000);
    delegate(0, 4096);
    peer(0, PEER_LOST);
    peer(0, PEER_THERE);
    delegate(0, 4096);
    ask_about(0, RDMAD_MSG_LEASE_RELEASE, THING_HANDLE, 0);
    settle();
    attach_text(0, FAR_LEASE);
    peer(0, PEER_LOST);
    attach_text(0, FAR_LEASE);
    peer(0, 0);
    settle();
    peer(0, PEER_LOST | PEER_THERE);
    settle();
    attach_text(0, FAR_LEASE);
    move_with(MOVE_GO, 0);
}

void seed_by_link(void) {
    begin(REQUESTS_BY_LINK);
    make_pool(0);
    grant(0, "a");
    attach(0, 0);
    settle();
    listen_as(0, "b", 8192);
    request(1, NULL);
    settle();
    ask_about(0, RDMAD_MSG_LEASE_RELEASE, THING_HANDLE, 0);
    settle();
}

/* The other daemon gives way to its next life. */
void seed_attach_again(void) {
    begin(0);
    offer_resume(0);
    attach_text(0, FAR_LEASE);
    peer(0, PEER_LOST);
    move_with(MOVE_TIME, 15);
    peer(0, PEER_LOST);
    move_with(MOVE_TIME, 16);
    peer(0, 0);
    settle();
    attach_text(0, FAR_LEASE);
    peer(0, PEER_LOST);
    attach_text(0, FAR_LEASE);
    with(AT(lease_attach, timeout_ns), 30000000);
    peer(0, PEER_LOST);
    move_with(MOVE_TIME, 16);
    peer(0, PEER_LOST);
    attach_text(0, FAR_LEASE);
    peer(1, PEER_LOST);
    move(MOVE_DRAIN, 0);
    move_with(MOVE_TIME, 16);
    move_with(MOVE_GO, 0);
}

/* ---- memory by request ----------------------------------------------------------------------- */

void seed_request(void) {
    begin(0);
    make_pool(0);
    listen_as(0, "a", 16384);
    request(1, NULL);
    settle();
    ask_about(1, RDMAD_MSG_LEASE_HAND_OVER, THING_HANDLE, 0);
    settle();
    ask_about(1, RDMAD_MSG_LEASE_HAND_OVER, THING_HANDLE, 0);
    ask_about(1, RDMAD_MSG_BUDGET_FREE, THING_SERVICE, 0);
    ask_about(0, RDMAD_MSG_BUDGET_FREE, THING_SERVICE, 0);
    ask_about(0, RDMAD_MSG_BUDGET_FREE, THING_SERVICE, 0);
    request(1, NULL);
    request(2, NULL);
    settle();
    ask_about(1, RDMAD_MSG_LEASE_RELEASE, THING_HANDLE, 1);
    ask_about(0, RDMAD_MSG_SERVICE_CLOSE, THING_SERVICE, 0);
    ask_about(2, RDMAD_MSG_LEASE_HAND_OVER, THING_HANDLE, 0);
    settle();
    request(1, NULL);
    grant(0, "");
    attach(1, 0);
    settle();
    ask_about(1, RDMAD_MSG_LEASE_HAND_OVER, THING_HANDLE, 0);
    ask_about(0, RDMAD_MSG_LEASE_REVOKE, THING_LEASE, 0);
    settle();
    ask_about(1, RDMAD_MSG_LEASE_HAND_OVER, THING_HANDLE, 0);
}

void seed_request_wrong(void) {
    begin(REQUESTS_POLICY);
    listen_as(0, "a", 0);
    request(1, NULL);
    ask_about(0, RDMAD_MSG_BUDGET_FREE, THING_SERVICE, 0);
    request(1, "rdmad:///a");
    with(AT(lease_request, bytes), 0);
    request(1, "rdmad:///a");
    with32(AT(lease_request, rights), 16);
    request(1, "rdmad:///a");
    with32(AT(lease_request, reserved), 16);
    request(1, "rdmad:///ab");
    request(1, "rdmad:///b");
    request(1, FAR_LEASE);
    request(1, "rdmad://far:7472/a");
    with(AT(lease_request, bytes), 0);
    request(1, "what");
    request(1, "rdmad://far:7472/a");
    peer(0, 0);
    settle();
    ask_about(1, RDMAD_MSG_LEASE_HAND_OVER, THING_HANDLE, 0);
    move_with(MOVE_ANSWER, 0);
    peer(0, PEER_LOST);
    request(1, "rdmad://far:7472/a");
    peer(0, 0);
    settle();
    ask_about(1, RDMAD_MSG_LEASE_HAND_OVER, THING_HANDLE, 0);
    move_with(MOVE_ANSWER, 0);
    move(MOVE_GO, 1);
    byte(0);
}

/* More than is zeroed at once, and its requester goes meanwhile. */
void seed_request_given_up(void) {
    begin(0);
    ask(0, RDMAD_MSG_POOL_CREATE);
    with(AT(pool_create, bytes), 262144);
    settle();
    prepare(0, 0);
    ask_about(0, RDMAD_MSG_POOL_READY, THING_POOL, 0);
    settle();
    listen_as(0, "a", 262144);
    ask(1, RDMAD_MSG_LEASE_REQUEST);
    with(AT(lease_request, bytes), 262144);
    with_thing(AT(lease_request, uri), THING_SERVICE_URI, 0);
    move(MOVE_GO, 1);
    byte(0);
    move_with(MOVE_ANSWER, 0);
    settle();
    ask(2, RDMAD_MSG_LEASE_REQUEST);
    with(AT(lease_request, bytes), 262144);
    with_thing(AT(lease_request, uri), THING_SERVICE_URI, 0);
    move_with(MOVE_GO, 0);
}

/* Programs of another daemon attach, are asked to stop, and do or do not in time. */
void seed_guests(void) {
    begin(REQUESTS_GRANTS);
    make_pool(0);
    grant(0, "");
    settle();
    peer(0, PEER_COMES);
    peer(0, PEER_COMES);
    settle();
    ask_about(0, RDMAD_MSG_LEASE_STAT, THING_LEASE, 0);
    ask_about(0, RDMAD_MSG_LEASE_RENEW, THING_LEASE, 0);
    with(AT(lease_renew, ttl_ns), 1000000000);
    peer(1, PEER_LEAVES);
    ask_about(0, RDMAD_MSG_LEASE_REVOKE, THING_LEASE, 0);
    peer(0, PEER_STOPS);
    settle();
    grant(0, "");
    peer(0, PEER_COMES);
    ask_about(0, RDMAD_MSG_LEASE_REVOKE, THING_LEASE, 0);
    move_with(MOVE_TIME, 24);
    settle();
    listen_as(0, "a", 16384);
    peer(0, PEER_COMES);
    accept_one(0);
    peer(0, 0);
    settle();
    peer(0, PEER_COMES);
    peer(0, PEER_LEAVES);
    peer(0, PEER_COMES | PEER_LOST);
    settle();
    peer(0, PEER_LEAVES);
    settle();
    ask_about(0, RDMAD_MSG_BUDGET_FREE, THING_SERVICE, 0);
    peer(0, PEER_COMES | PEER_LOST);
    peer(0, PEER_LEAVES | PEER_LOST);
    peer(0, PEER_COMES);
    ask_about(0, RDMAD_MSG_CHANNEL_REJECT, THING_SERVICE, 0);
    with_thing(AT(channel_reject, incoming), THING_INCOMING, 0);
    ask_about(0, RDMAD_MSG_CHANNEL_CLOSE, THING_CHANNEL, 0);
    settle();
}
