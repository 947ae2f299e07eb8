/* SPDX-License-Identifier: MIT */
/* The promises of daemon/ipc/ring.h, most of them against a client that lies. */
#include "common/ringword.h"
#include "daemon/ipc/ring.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static struct ring *ring;
static int fds[RING_FDS];
static struct rdmad_ring_client *client;
static const struct rdmad_ring_daemon *daemon_words;
static struct rdmad_sqe *sqe;

static void up(uint32_t sq_entries, uint32_t cq_entries) {
    struct error err;
    cr_assert_eq(ring_create(sq_entries, cq_entries, &ring, fds, &err), 0, "%s", err.text);
    client = mmap(NULL, ring->client_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    daemon_words = mmap(NULL, ring->daemon_bytes, PROT_READ, MAP_SHARED, fds[1], 0);
    cr_assert(client != MAP_FAILED && daemon_words != MAP_FAILED);
    sqe = (void *)((char *)client + RDMAD_RING_ENTRIES_OFFSET);
}

static void down(void) {
    munmap(client, ring->client_bytes);
    munmap((void *)(uintptr_t)daemon_words, ring->daemon_bytes);
    for (int i = 0; i < RING_FDS; i++)
        close(fds[i]);
    ring_destroy(ring);
}

static uint32_t available(void) {
    uint32_t count = 0;
    cr_assert_eq(ring_available(ring, &count), 0);
    return count;
}

static void take_all(void) {
    struct rdmad_sqe copy;
    for (uint32_t n = available(); n > 0; n--)
        ring_take(ring, &copy);
}

static void answer(unsigned count) {
    for (unsigned i = 0; i < count; i++)
        ring_complete(ring, &(struct rdmad_cqe){.user_data = i});
}

Test(ring, sizes_are_powers_of_two_within_the_limits) {
    static const uint32_t asked[][4] = {
        {0, 0, 2, 4},
        {1, 1, 2, 2},
        {3, 0, 4, 8},
        {64, 2, 64, 64},
        {100, 300, 128, 512},
        {4096, 0, 4096, 4096},
        {UINT32_MAX, UINT32_MAX, 4096, 4096},
    };
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        up(asked[i][0], asked[i][1]);
        cr_assert_eq(ring->sq_entries, asked[i][2]);
        cr_assert_eq(ring->cq_entries, asked[i][3]);
        cr_assert_eq(ring_bytes(asked[i][0], asked[i][1]), ring->client_bytes + ring->daemon_bytes);
        down();
    }
}

Test(ring, the_client_can_neither_write_the_daemons_side_nor_resize_either) {
    up(8, 0);
    cr_assert_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0), MAP_FAILED);
    cr_assert_eq(pwrite(fds[1], "x", 1, 0), -1);
    cr_assert_eq(mprotect((void *)(uintptr_t)daemon_words, 4096, PROT_READ | PROT_WRITE), -1);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(ftruncate(fds[i], 0), -1);
        cr_assert_eq(ftruncate(fds[i], 1 << 20), -1);
        cr_assert_eq(fcntl(fds[i], F_ADD_SEALS, F_SEAL_WRITE), -1);
    }
    down();
}

Test(ring, a_tail_that_is_too_far_breaks_the_ring) {
    up(8, 0);
    static const uint32_t bad[] = {9, 16, 1000, UINT32_MAX, UINT32_MAX - 7, 0x80000000u};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint32_t count = 99;
        client->sq_tail = bad[i];
        cr_assert_eq(ring_available(ring, &count), RDMAD_E_RING);
        cr_assert_eq(count, 0);
    }
    client->sq_tail = 8;
    cr_assert_eq(available(), 8);
    down();
}

Test(ring, what_is_not_taken_is_counted_and_never_more_than_fits) {
    static const uint32_t lies[] = {12, 1000, 0x80000003u, UINT32_MAX, 2 /* it goes back */};
    up(8, 0);
    client->sq_tail = 3;
    cr_expect_eq(ring_unread(ring), 0, "a touch of memory that is not locked may wait");
    ring->client_memory.locked = ring->daemon_memory.locked = true;
    cr_expect_eq(ring_unread(ring), 3);
    take_all();
    ring_flush(ring, true);
    cr_expect_eq(ring_unread(ring), 0);
    client->sq_tail = 11;
    cr_expect_eq(ring_unread(ring), 8);
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        client->sq_tail = lies[i];
        cr_expect_eq(ring_unread(ring), 8, "a tail of %u", lies[i]);
    }
    down();
}

Test(ring, a_tail_that_goes_back_breaks_the_ring) {
    up(8, 0);
    client->sq_tail = 4;
    take_all();
    client->sq_tail = 3;
    uint32_t count;
    cr_assert_eq(ring_available(ring, &count), RDMAD_E_RING);
    down();
}

/* The head is looked at when room runs out. */
static void fill_cq(void) {
    client->sq_tail = 8;
    take_all();
    answer(8);
    ring_flush(ring, true);
    client->sq_tail = 16;
}

Test(ring, a_head_beyond_what_was_given_breaks_the_ring) {
    static const uint32_t bad[] = {9, 17, 1000, UINT32_MAX, 0x80000000u};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        up(8, 8);
        fill_cq();
        client->cq_head = bad[i];
        uint32_t count;
        cr_assert_eq(ring_available(ring, &count), RDMAD_E_RING, "head %u", bad[i]);
        down();
    }
}

Test(ring, completions_not_published_yet_cannot_have_been_taken) {
    up(8, 8);
    client->sq_tail = 8;
    take_all();
    answer(8); /* not flushed */
    client->sq_tail = 16;
    client->cq_head = 8;
    uint32_t count;
    cr_assert_eq(ring_available(ring, &count), RDMAD_E_RING);
    down();
}

Test(ring, a_head_that_goes_back_breaks_the_ring) {
    up(8, 8);
    fill_cq();
    client->cq_head = 4;
    cr_assert_eq(available(), 4);
    take_all();
    client->cq_head = 3;
    uint32_t count;
    cr_assert_eq(ring_available(ring, &count), RDMAD_E_RING);
    down();
}

Test(ring, an_sqe_is_only_taken_when_its_cqe_has_a_place) {
    up(8, 8);
    client->sq_tail = 5;
    take_all(); /* five promised */
    client->sq_tail = 13;
    cr_assert_eq(available(), 3);
    answer(2); /* two of the five given, none reaped */
    cr_assert_eq(available(), 3);
    take_all();
    cr_assert_eq(available(), 0);
    ring_flush(ring, true);
    client->cq_head = 2;
    cr_assert_eq(available(), 2);
    down();
}

Test(ring, a_reservation_given_back_is_room_for_another) {
    up(8, 8);
    for (uint32_t n = 1; n <= 24; n++) {
        client->sq_tail = n;
        cr_assert_eq(available(), 1, "after %u", n);
        take_all();
        ring_release(ring);
        ring_flush(ring, true);
    }
    cr_assert_eq(daemon_words->cq_tail, 0, "and nothing was told");
    down();
}

Test(ring, indices_wrap_around_at_32_bits) {
    up(4, 4);
    uint32_t start = UINT32_MAX - 5;
    ring->sq_head = ring->sq_head_published = client->sq_tail = start;
    ring->cq_tail = ring->cq_tail_published = ring->cq_head_seen = client->cq_head = start;
    for (unsigned i = 0; i < 20; i++) {
        sqe[client->sq_tail & 3].user_data = i;
        client->sq_tail++;
        struct rdmad_sqe copy;
        cr_assert_eq(available(), 1);
        ring_take(ring, &copy);
        cr_assert_eq(copy.user_data, i);
        ring_complete(ring, &(struct rdmad_cqe){.user_data = i});
        ring_flush(ring, true);
        cr_assert_eq(daemon_words->cq_tail, start + i + 1);
        client->cq_head++;
    }
    down();
}

Test(ring, arming_sees_what_was_published_before_it) {
    up(8, 0);
    cr_assert(ring_arm(ring));
    cr_assert_eq(daemon_words->sq_wait, 1);
    ring_disarm(ring);
    cr_assert_eq(daemon_words->sq_wait, 0);
    client->sq_tail = 1;
    cr_assert_not(ring_arm(ring));
    down();
}

Test(ring, sqes_without_room_for_their_answers_do_not_keep_the_daemon_awake) {
    up(8, 8);
    fill_cq();
    cr_assert_eq(available(), 0);
    cr_assert(ring_arm(ring));
    client->cq_head = 1; /* published like an sq tail: wait word seen, doorbell rung */
    cr_assert_not(ring_arm(ring));
    down();
}

Test(ring, a_sleeping_client_is_woken_and_an_awake_one_is_not) {
    up(8, 0);
    char byte;
    client->sq_tail = 2;
    take_all();
    answer(1);
    cr_assert_not(ring_flush(ring, true));
    cr_assert_eq(recv(fds[2], &byte, 1, MSG_DONTWAIT), -1);
    client->cq_wait = 1;
    answer(1);
    cr_assert(ring_flush(ring, true));
    cr_assert_eq(recv(fds[2], &byte, 1, MSG_DONTWAIT), 1);
    cr_assert_not(ring_flush(ring, true), "nothing new, nobody to wake");
    down();
}

/* A descriptor on which every send fails stands for a kernel without memory. */
Test(ring, a_wakeup_that_could_not_be_sent_is_owed) {
    up(8, 0);
    char byte;
    int wakeup = ring->wakeup;
    client->sq_tail = 1;
    take_all();
    client->cq_wait = 1;
    ring->wakeup = ring->doorbell;
    answer(1);
    cr_assert_not(ring_flush(ring, true));
    cr_assert(ring->wakeup_owed);
    ring->wakeup = wakeup;
    cr_assert(ring_flush(ring, true), "nothing new is published, but the client still sleeps");
    cr_assert_eq(recv(fds[2], &byte, 1, MSG_DONTWAIT), 1);
    cr_assert_not(ring->wakeup_owed);
    cr_assert_not(ring_flush(ring, true), "once");
    down();
}

static void answer_sleeper(void) {
    client->sq_tail++;
    take_all();
    answer(1);
}

Test(ring, what_is_completed_while_a_wakeup_is_owed_is_there_at_once) {
    up(8, 0);
    struct send_rest rest = {.until_ns = CLOCK_NEVER};
    char byte;
    ring->wakeup_cost = (struct send_cost){.rest = &rest, .doubted = true};
    client->cq_wait = 1;
    answer_sleeper();
    cr_assert_not(ring_flush(ring, true));
    answer_sleeper();
    cr_assert_not(ring_flush(ring, false));
    cr_assert(ring->wakeup_owed);
    cr_assert_eq(daemon_words->cq_tail, 2);
    cr_assert_eq(daemon_words->sq_head, 2);
    rest.until_ns = 0;
    cr_assert_not(ring_flush(ring, false), "not now");
    cr_assert(ring_flush(ring, true), "the rest is over");
    cr_assert_eq(recv(fds[2], &byte, 1, MSG_DONTWAIT), 1);
    down();
}

/* Else who lets his socket be full now and then is measured by what costs nothing. */
Test(ring, a_wakeup_that_a_full_socket_did_not_take_proves_nothing, .timeout = 60) {
    up(8, 8);
    struct send_rest rest = {.until_ns = 0};
    client->cq_wait = 1;
    while (send(ring->wakeup, "", 1, MSG_DONTWAIT) == 1)
        ;
    ring->wakeup_cost = (struct send_cost){.rest = &rest, .doubted = true};
    answer_sleeper();
    cr_assert(ring_flush(ring, true), "it is readable already");
    cr_assert(ring->wakeup_cost.doubted);
    down();
}

Test(ring, a_client_that_never_reads_its_wakeups_blocks_nobody, .timeout = 60) {
    up(8, 8);
    client->cq_wait = 1;
    for (unsigned i = 0; i < 100000; i++) {
        client->sq_tail++;
        take_all();
        answer(1);
        cr_assert(ring_flush(ring, true));
        client->cq_head++;
    }
    down();
}

/* Whatever would be in our end of the socket, we would have to drop. */
Test(ring, the_wakeup_socket_takes_neither_bytes_nor_descriptors) {
    up(8, 8);
    cr_assert_eq(send(fds[2], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL), -1);
    cr_assert_eq(errno, EPIPE);
    char byte = 0;
    struct iovec iov = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.header), &fds[0], sizeof(int));
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    cr_assert_eq(sendmsg(fds[2], &msg, MSG_DONTWAIT | MSG_NOSIGNAL), -1);
    cr_assert_eq(errno, EPIPE);
    client->cq_wait = 1;
    client->sq_tail = 1;
    take_all();
    answer(1);
    cr_assert(ring_flush(ring, true));
    cr_assert_eq(recv(fds[2], &byte, 1, MSG_DONTWAIT), 1, "and still rings");
    down();
}

/* The client shares the eventfd's description: it may do all this, and nothing of ours minds. */
Test(ring, a_doorbell_that_is_full_and_blocking_blocks_nobody, .timeout = 60) {
    up(8, 8);
    cr_assert_eq(fcntl(fds[3], F_SETFL, 0), 0);
    cr_assert_eq(eventfd_write(fds[3], UINT64_MAX - 1), 0);
    cr_assert(ring_arm(ring));
    client->sq_tail = 1;
    cr_assert_not(ring_arm(ring));
    client->cq_wait = 1;
    take_all();
    answer(1);
    cr_assert(ring_flush(ring, true));
    down();
}

static unsigned doorbells_heard(int epoll) {
    struct epoll_event ev;
    return (unsigned)epoll_wait(epoll, &ev, 1, 0);
}

Test(ring, each_ring_of_the_doorbell_is_heard_though_none_is_read) {
    up(8, 8);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
    cr_assert_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, ring->doorbell, &ev), 0);
    cr_assert_eq(doorbells_heard(epoll), 0);
    for (unsigned i = 0; i < 100; i++) {
        cr_assert_eq(eventfd_write(fds[3], 1), 0);
        cr_assert_eq(doorbells_heard(epoll), 1);
        cr_assert_eq(doorbells_heard(epoll), 0);
    }
    close(epoll);
    down();
}

Test(ring, the_clients_ends_may_close_at_any_time) {
    up(8, 8);
    close(fds[2]);
    close(fds[3]);
    client->cq_wait = 1;
    client->sq_tail = 1;
    take_all();
    answer(1);
    cr_assert(ring_flush(ring, true)); /* no SIGPIPE */
    ring_disarm(ring);
    fds[2] = fds[3] = -1;
    down();
}

/* ---- signs of life --------------------------------------------------------------------------- */

static bool woken(void) {
    char byte[8];
    return recv(fds[2], byte, sizeof(byte), MSG_DONTWAIT) > 0;
}

Test(ring, a_client_lives_that_submits_takes_or_answers) {
    up(8, 8);
    client->alive = 1;
    (void)ring_ask_alive(ring);
    cr_expect_not(ring_ask_alive(ring), "it did nothing");
    client->sq_tail = 1;
    cr_expect(ring_ask_alive(ring));
    cr_expect_not(ring_ask_alive(ring), "that was before");
    client->cq_head = 1; /* which is judged elsewhere */
    cr_expect(ring_ask_alive(ring));
    cr_expect_not(ring_ask_alive(ring));
    client->alive = daemon_words->ask + 1;
    cr_expect(ring_ask_alive(ring));
    cr_expect_not(ring_ask_alive(ring));
    cr_expect_not(woken(), "it does not sleep");
    down();
}

Test(ring, one_that_sleeps_is_woken_once_until_it_shows_that_it_lives) {
    up(8, 8);
    client->alive = client->cq_wait = 1;
    for (unsigned i = 0; i < 100; i++)
        (void)ring_ask_alive(ring);
    char bytes[200];
    cr_expect_eq(recv(fds[2], bytes, sizeof(bytes), MSG_DONTWAIT), 1, "a byte for each question");
    client->alive = daemon_words->ask + 1;
    cr_expect(ring_ask_alive(ring));
    cr_expect(woken());
    down();
}

Test(ring, of_a_client_that_answers_nothing_nothing_can_be_told) {
    up(8, 8);
    client->cq_wait = 1;
    for (unsigned i = 0; i < 3; i++)
        cr_expect(ring_ask_alive(ring));
    cr_expect_not(woken(), "an older library would not know why");
    down();
}

Test(ring, questions_never_ask_for_an_answer_that_means_none) {
    up(8, 8);
    client->alive = 1;
    ring->look.ask = UINT32_MAX - 2;
    for (unsigned i = 0; i < 4; i++) {
        (void)ring_ask_alive(ring);
        cr_expect_neq(daemon_words->ask + 1, 0);
    }
    down();
}
