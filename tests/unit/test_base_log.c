/* SPDX-License-Identifier: MIT */
/*
 * The log: what outsiders write into it can neither forge a line nor fill the disk, and nobody
 * waits for whoever reads it.
 */
#include "daemon/base/error.h"
#include "daemon/base/log.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[65536];

/* Runs scene with stderr in a pipe and keeps what it wrote. */
static void listen_to(void (*scene)(void)) {
    int fds[2], saved = dup(STDERR_FILENO);
    cr_assert_eq(pipe(fds), 0);
    dup2(fds[1], STDERR_FILENO);
    close(fds[1]);
    scene();
    dup2(saved, STDERR_FILENO);
    close(saved);
    size_t used = 0;
    ssize_t n;
    while ((n = read(fds[0], said + used, sizeof(said) - 1 - used)) > 0)
        used += (size_t)n;
    said[used] = '\0';
    close(fds[0]);
}

static size_t lines(void) {
    size_t n = 0;
    for (const char *p = said; *p; p++)
        n += *p == '\n';
    return n;
}

static void hostile_text(void) {
    log_init(LOG_INFO, 1);
    LOG(WARNING, ("name is \"%s\"", "a\n12:00:00 error: forged\x1b[2J\xc2\x9b\\"),
        FIELD_STR("NAME", "x\ny=1"), FIELD_U64("SESSION", 7));
}

Test(log, text_from_outside_stays_on_its_line) {
    listen_to(hostile_text);
    cr_assert_eq(lines(), 1);
    cr_assert_not_null(strstr(said, "warning: name is \"a\\x0a12:00:00"));
    cr_assert_not_null(strstr(said, "\\x1b[2J\\xc2\\x9b\\x5c"));
    cr_assert_not_null(strstr(said, " name=x\\x0ay=1 session=7\n"));
}

static void long_text(void) {
    static char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    log_init(LOG_INFO, 1);
    LOG(INFO, ("%s", text), FIELD_STR("A", text), FIELD_STR("B", text));
}

Test(log, what_is_too_long_is_cut_and_the_line_still_ends) {
    listen_to(long_text);
    cr_assert_eq(lines(), 1);
    cr_assert_eq(said[strlen(said) - 1], '\n');
}

static void levels(void) {
    log_init(LOG_WARNING, 1);
    LOG(INFO, ("not shown"));
    LOG(WARNING, ("shown"));
    log_set_level(LOG_DEBUG);
    LOG(DEBUG, ("now shown"));
}

Test(log, a_level_hides_what_lies_above_it) {
    listen_to(levels);
    cr_assert_eq(lines(), 2);
    cr_assert_null(strstr(said, "not shown"));
}

static void flood(void) {
    log_init(LOG_INFO, 1);
    for (int i = 0; i < 1000; i++)
        LOG_LIMITED(INFO, ("flood %d", i));
}

Test(log, a_place_that_is_provoked_writes_a_bounded_number_of_lines) {
    listen_to(flood);
    cr_assert_leq(lines(), 20, "ten a second, and the loop takes far less than one");
    cr_assert_not_null(strstr(said, "flood 9"));
}

static void flood_with_a_pause(void) {
    struct log_limit limit = {0};
    const struct log_field none[] = {{NULL, NULL, 0}};
    log_init(LOG_INFO, 1);
    for (int i = 0; i < 15; i++)
        log_write(LOG_INFO, &limit, LOG_OWN, "again", none);
    limit.since_ns = limit.rows[0].since_ns = 0; /* as if a second had gone by */
    log_write(LOG_INFO, &limit, LOG_OWN, "again", none);
}

Test(log, what_was_dropped_is_counted_in_the_next_line) {
    listen_to(flood_with_a_pause);
    cr_assert_eq(lines(), 11);
    cr_assert_not_null(strstr(said, "again (5 more like it were not shown)\n"));
}

/* ---- whose a line is ------------------------------------------------------------------------ */

#define SECOND UINT64_C(1000000000)

static const struct user_id flooder = {.uid = 1000}, victim = {.uid = 1001};
static const struct user_id namesake = {.uid = 1000, .tenant = 1}; /* in another container */

static void flood_and_one_line(void) {
    log_init(LOG_INFO, 1);
    for (int i = 0; i < 1001; i++)
        LOG_LIMITED_OF(log_of_user(i < 1000 ? flooder : victim), INFO, ("uid %d", i < 1000));
}

Test(log, a_users_flood_hides_no_line_of_another_user) {
    listen_to(flood_and_one_line);
    cr_assert_leq(lines(), 21);
    cr_assert_not_null(strstr(said, "uid 0\n"), "the victim's line is not there");
}

static unsigned pass(struct log_limit *l, uint64_t whose, unsigned times, uint64_t now_ns,
                     uint32_t *dropped) {
    unsigned n = 0;
    while (times--)
        n += log_limit_pass(l, whose, now_ns, dropped);
    return n;
}

Test(log, each_has_ten_lines_a_second_of_a_place_and_a_count_of_its_own) {
    struct log_limit l = {0};
    uint32_t dropped = 0;
    cr_assert_eq(pass(&l, log_of_user(flooder), 100, SECOND, &dropped), LOG_LINES);
    cr_assert_eq(pass(&l, log_of_user(namesake), 100, SECOND, &dropped), LOG_LINES);
    cr_assert_eq(pass(&l, log_of_user(victim), 1, SECOND, &dropped), 1);
    cr_assert_eq(dropped, 0, "another's are told with the victim's line");
    cr_assert_eq(pass(&l, log_of_user(flooder), 1, 2 * SECOND - 1, &dropped), 0);
    cr_assert_eq(pass(&l, log_of_user(flooder), 1, 2 * SECOND, &dropped), 1);
    cr_assert_eq(dropped, 91);
}

Test(log, all_of_a_place_have_a_bound_of_which_who_comes_first_has_half) {
    struct log_limit l = {0};
    uint32_t dropped = 0;
    unsigned n = 0;
    for (uint64_t peer = 1; peer <= 3; peer++)
        n += pass(&l, log_of_connection(peer), 100, SECOND, &dropped);
    cr_assert_eq(n, LOG_PLACE_LINES / 2 + 1, "the third has one: its first");
    for (uint64_t peer = 4; peer <= 1000; peer++)
        n += pass(&l, log_of_connection(peer), 1, SECOND, &dropped);
    cr_assert_eq(n, LOG_PLACE_LINES, "%u", n);
    for (uint64_t peer = 1; peer <= LOG_ROWS; peer++)
        n += pass(&l, log_of_connection(peer), 1, 2 * SECOND, &dropped);
    cr_assert_eq(n, LOG_PLACE_LINES + LOG_ROWS);
}

Test(log, what_was_dropped_of_a_row_that_gave_way_is_told_by_the_next_of_the_place) {
    struct log_limit l = {0};
    uint32_t dropped, told = 0;
    pass(&l, log_of_connection(1), LOG_LINES + 7, SECOND, &dropped);
    for (uint64_t peer = 2; peer <= LOG_ROWS + 1; peer++)
        if (log_limit_pass(&l, log_of_connection(peer), 2 * SECOND + peer, &dropped))
            told += dropped;
    cr_assert_eq(told, 7);
}

Test(log, users_connections_and_names_are_told_apart) {
    cr_assert_neq(log_of_user((struct user_id){0}), LOG_OWN, "root is not the daemon");
    cr_assert_neq(log_of_user(flooder), log_of_user(namesake));
    cr_assert_neq(log_of_user(flooder), log_of_connection(1000));
    cr_assert_neq(log_of_name("a"), log_of_name("b"));
    cr_assert(log_of_name("") >> 63, "a name may be a connection");
}

static void disk_is_full_for_a_while(void) {
    int reader = dup(STDERR_FILENO), full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    cr_assert(reader >= 0 && full >= 0);
    log_init(LOG_INFO, 1);
    dup2(full, STDERR_FILENO);
    for (int i = 0; i < 7; i++)
        LOG(INFO, ("unheard %d", i));
    dup2(reader, STDERR_FILENO);
    LOG(INFO, ("heard"));
    LOG(INFO, ("and once more"));
    close(reader);
    close(full);
}

Test(log, what_a_full_disk_does_not_take_is_counted_and_told_once) {
    listen_to(disk_is_full_for_a_while);
    cr_assert_eq(lines(), 3, "%s", said);
    const char *told = strstr(said, "warning: 7 lines were not written: No space left on device\n");
    cr_assert_not_null(told, "%s", said);
    cr_assert_not_null(strstr(told, "info: heard\n"), "the count comes first: %s", said);
}

/* ---- with a thread that writes ------------------------------------------------------------- */

static void log_begin(void) {
    struct error why;
    log_init(LOG_INFO, 1);
    cr_assert_eq(log_start(&why), 0, "%s", why.text);
}

static void count_to_1000(void) {
    log_begin();
    for (int i = 0; i < 1000; i++)
        LOG(INFO, ("number %d", i));
    log_stop();
    LOG(INFO, ("afterwards"));
}

Test(log, what_is_queued_is_written_in_order_before_the_end) {
    listen_to(count_to_1000);
    const char *at = said;
    cr_assert_eq(lines(), 1001);
    for (int i = 0; i < 1000; i++) {
        char text[32];
        snprintf(text, sizeof text, "number %d\n", i);
        at = strstr(at, text);
        cr_assert_not_null(at, "line %d is not where it belongs", i);
    }
    cr_assert_not_null(strstr(at, "afterwards\n"));
}

/* Standard error is a pipe that is full. */
static int reader_hangs(int *saved) {
    static const char zeros[1 << 16];
    int fds[2];
    *saved = dup(STDERR_FILENO);
    signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    cr_assert_eq(pipe(fds), 0);
    while (fcntl(fds[1], F_SETFL, O_NONBLOCK), write(fds[1], zeros, sizeof zeros) > 0)
        ;
    fcntl(fds[1], F_SETFL, 0);
    dup2(fds[1], STDERR_FILENO);
    close(fds[1]);
    return fds[0];
}

static void reader_leaves(int fd, int saved) {
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(fd);
}

Test(log, nobody_waits_for_a_reader_that_hangs_and_what_had_no_room_is_counted, .timeout = 60) {
    static char text[900];
    int saved, fd = reader_hangs(&saved);
    memset(text, 'x', sizeof(text) - 1);
    log_begin();
    for (int i = 0; i < 1000; i++)
        LOG(INFO, ("%s", text));
    static char heard[1 << 20];
    size_t used = 0;
    do {
        struct pollfd more = {.fd = fd, .events = POLLIN};
        cr_assert_eq(poll(&more, 1, 10000), 1, "nobody tells how many lines were lost");
        ssize_t n = read(fd, heard + used, sizeof(heard) - 1 - used);
        cr_assert_gt(n, 0);
        for (ssize_t i = 0; i < n; i++, used++)
            if (!heard[used]) /* of what stopped the pipe */
                heard[used] = '0';
        heard[used] = '\0';
    } while (!strstr(heard, "lines were not written"));
    log_stop();
    reader_leaves(fd, saved);
}

Test(log, a_reader_that_hangs_does_not_hold_up_the_end, .timeout = 60) {
    int saved, fd = reader_hangs(&saved);
    log_begin();
    LOG(INFO, ("it waits"));
    log_stop();
    LOG(INFO, ("it is dropped"));
    reader_leaves(fd, saved);
}

static void a_child_too(void) {
    log_begin();
    pid_t pid = fork();
    if (pid == 0) {
        LOG(INFO, ("from the child"));
        _exit(0);
    }
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    log_stop();
}

Test(log, a_child_writes_for_itself) {
    listen_to(a_child_too);
    cr_assert_not_null(strstr(said, "from the child\n"));
}

Test(error, a_sentence_keeps_its_code_and_errno) {
    struct error e;
    errno = ENOENT;
    cr_assert_eq(error_errno(&e, RDMAD_E_SYSTEM, "open %s", "FILE"), RDMAD_E_SYSTEM);
    cr_assert_str_eq(e.text, "open FILE: No such file or directory");
    cr_assert_eq(errno, ENOENT);
    cr_assert_eq(error_set(&e, RDMAD_E_LIMIT, "%0300d", 1), RDMAD_E_LIMIT);
    cr_assert_eq(strlen(e.text), RDMAD_TEXT_MAX);
    cr_assert_eq(error_set(NULL, RDMAD_E_BUSY, "x"), RDMAD_E_BUSY);
    cr_assert_eq(error_errno(NULL, RDMAD_E_BUSY, "x"), RDMAD_E_BUSY);
}

Test(error, every_code_has_a_text) {
    for (int code = RDMAD_OK; code >= RDMAD_E_LEASE_ADMIN; code--)
        cr_assert_str_neq(error_text(code), "unknown error");
    cr_assert_str_eq(error_text(1), "unknown error");
    cr_assert_str_eq(error_text(-30000), "unknown error");
}
