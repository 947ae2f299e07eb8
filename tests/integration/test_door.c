/* SPDX-License-Identifier: MIT */
/*
 * test_door.c - what strangers bring to the client socket makes nobody wait but themselves, and
 * nothing of it stays: descriptors whose close lingers, in packets and in what nobody read, by the
 * hundred in a packet, beside a neighbour; the porter killed; who may connect at all.
 *
 * On the control thread each lingering close would cost a neighbour LINGER_S.
 */
#include "tests/support/bystander.h"
#include "tests/support/cargo.h"
#include "tests/support/procs.h"
#include "tests/support/rawclient.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOSTILE_UID 65532u
#define LINGER_S 8
#define PACKET_FDS 253u
#define CROWD 900
#define HOSTILE_FDS 20000u

/* ---- the hostile client ---------------------------------------------------------------------- */

static void become(uid_t uid, gid_t gid) {
    if (getuid() == 0)
        CHECK(!setgroups(0, NULL) && !setresgid(gid, gid, gid) && !setresuid(uid, uid, uid),
              "cannot become uid %u", (unsigned)uid);
}

static const char *hostile_dir;
static void (*hostile_deed)(void);

/* What is on its way in sockets counts against the same limit. */
static void as_hostile(void *arg) {
    struct rlimit limit;
    (void)arg;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    if (getuid() == 0 && limit.rlim_max < HOSTILE_FDS)
        limit.rlim_max = HOSTILE_FDS;
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    become(HOSTILE_UID, HOSTILE_UID);
    hostile_deed();
}

/* Sends without waiting: a socket that is full stays full while the porter waits. */
static void bring(int sock, int fd, unsigned count) {
    struct rdmad_msg_header h;
    int fds[PACKET_FDS];
    for (unsigned i = 0; i < count; i++)
        fds[i] = fd;
    raw_header(&h, RDMAD_MSG_POOL_IMPORT, sizeof(struct rdmad_pool_import_req));
    (void)raw_send(sock, &h, sizeof(h), fds, count);
}

/*
 * The daemon sleeps while something is sent and closed here: so what is on its way is the last
 * reference, and not the attacker's, who would wait itself. The test stops and wakes it.
 */
static int commands[2], replies[2];

static void command(char what) {
    char byte;
    CHECK(write(commands[1], &what, 1) == 1 && read(replies[0], &byte, 1) == 1, "no answer");
}

static void obey(struct tdaemon *d) {
    char what;
    close(commands[1]);
    close(replies[0]);
    while (read(commands[0], &what, 1) == 1) {
        (what == 's' ? process_stop : process_go_on)(tdaemon_pid(d));
        CHECK(write(replies[1], "", 1) == 1, "write");
    }
    close(commands[0]);
    close(replies[1]);
}

static int nonblocking_session(void) {
    int sock = raw_session(hostile_dir);
    fcntl(sock, F_SETFL, O_NONBLOCK);
    return sock;
}

/* Made before the daemon is put to sleep, in which others wait for the test, not for the attack. */
static void load(int *cargo, unsigned n, bool (*nested)(unsigned i)) {
    for (unsigned i = 0; i < n; i++) {
        cargo[i] = cargo_lingering(LINGER_S);
        if (nested(i))
            cargo[i] = cargo_inside(cargo[i]);
    }
}

static bool all_but_each_third(unsigned i) {
    return i % 3 != 1;
}

static bool each_second(unsigned i) {
    return i % 2;
}

static void let_go(const int *cargo, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        close(cargo[i]);
}

static void bring_many(int sock, unsigned packets) {
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (unsigned n = 0; n < packets; n++)
        bring(sock, null, PACKET_FDS);
    close(null);
}

/* Six connections, each with lingering sockets, then very many others, then lingering ones again.
 */
static void send_lingering(void) {
    int socks[6], cargo[18];
    for (int i = 0; i < 6; i++)
        socks[i] = nonblocking_session();
    load(cargo, 18, all_but_each_third);
    command('s');
    for (int i = 0; i < 6; i++) {
        bring(socks[i], cargo[3 * i], 1);
        bring_many(socks[i], 3);
        bring(socks[i], cargo[3 * i + 1], 1);
        bring(socks[i], cargo[3 * i + 2], 1);
    }
    let_go(cargo, 18);
    command('c');
    sleep_ms(1500);
}

/* Come and go, and much of what they sent is unread when they have gone. */
static void leave_unread(void) {
    int socks[24], cargo[24];
    load(cargo, 24, each_second);
    for (int i = 0; i < 24; i++) {
        socks[i] = raw_connect(hostile_dir);
        fcntl(socks[i], F_SETFL, O_NONBLOCK);
    }
    command('s');
    for (int i = 0; i < 24; i++) {
        if (i % 3 == 0)
            (void)!send(socks[i], "", 0, 0); /* which ends it */
        bring(socks[i], cargo[i], 1);
        bring_many(socks[i], 2);
        close(socks[i]);
    }
    let_go(cargo, 24);
    command('c');
    sleep_ms(2000);
}

/* Packets full of descriptors as fast as they are taken. */
static void flood(void) {
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    uint64_t until = now_ms() + 1500;
    int socks[8];
    for (int i = 0; i < 8; i++)
        socks[i] = nonblocking_session();
    while (now_ms() < until)
        for (int i = 0; i < 8; i++) {
            char answer[RDMAD_MSG_MAX];
            bring(socks[i], null, PACKET_FDS);
            while (recv(socks[i], answer, sizeof(answer), MSG_DONTWAIT) > 0)
                ;
        }
}

/* What the kernel takes apart some time later, in a thread of its own. Linux 6.8 and before did
 * that in whoever closed a Unix socket next: here the daemon, whose session each ends. */
static void leave_circles(void) {
    for (uint64_t until = now_ms() + 3000; now_ms() < until; sleep_ms(20)) {
        int sock = raw_connect(hostile_dir);
        cargo_circle(cargo_lingering(LINGER_S));
        shutdown(sock, SHUT_WR); /* closing it here would be the first close */
        sleep_ms(20);
        close(sock);
    }
}

static void run_hostile(struct tdaemon *d, void (*deed)(void)) {
    CHECK(pipe2(commands, O_CLOEXEC) == 0 && pipe2(replies, O_CLOEXEC) == 0, "pipes");
    hostile_dir = tdaemon_dir(d);
    hostile_deed = deed;
    pid_t pid = client_fork(as_hostile, NULL);
    obey(d);
    client_expect_ok(pid);
}

/* ---- attacks ----------------------------------------------------------------------------------
 */

static void expect_porter_fds(pid_t porter, unsigned at_most) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    unsigned now;
    while ((now = open_fds(porter)) > at_most) {
        CHECK(now_ms() < deadline, "the porter holds %u descriptors, at most %u expected", now,
              at_most);
        sleep_ms(10);
    }
}

/* One attack beside a neighbour; when the attacker is gone, what it brought is gone, too. */
static void attack(void (*deed)(void), const char *name) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    json_t *before = raw_objects_at_rest(d);
    unsigned fds = tdaemon_fds(d), porter_fds = open_fds(tdaemon_porter(d));
    pid_t porter = tdaemon_porter(d);
    struct bystander *b = bystander_start(d);
    run_hostile(d, deed);
    sleep_ms(300);
    bystander_stop(b, name);
    tdaemon_expect_objects(d, before);
    tdaemon_expect_fds(d, fds);
    expect_porter_fds(porter, porter_fds + 1); /* a worker may wait for more work */
    CHECK(tdaemon_porter(d) == porter, "the porter was replaced");
    tdaemon_stop(d);
}

static void lingering_sockets_in_packets_hold_up_nobody(void) {
    attack(send_lingering, "packets with lingering sockets");
}

static void lingering_sockets_that_nobody_read_hold_up_nobody_and_do_not_stay(void) {
    attack(leave_unread, "lingering sockets left unread");
}

static void floods_of_descriptors_hold_up_nobody_and_do_not_stay(void) {
    attack(flood, "packets of 253 descriptors");
}

static void circles_of_sockets_hold_up_nobody(void) {
    attack(leave_circles, "circles of sockets that linger");
}

/* Whose worker waits for a lingering close still has every right, but to have descriptors taken. */
static void who_waits_for_its_own_descriptor_is_served_otherwise(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    int other = raw_session(tdaemon_dir(d)), sock = raw_session(tdaemon_dir(d));
    int fd = cargo_inside(cargo_lingering(LINGER_S));
    struct raw_ring ring;
    uint64_t before = now_ms();
    bring(other, fd, 1);
    close(fd);
    sleep_ms(50);
    CHECK(raw_ring_create(sock, 16, &ring) == 0, "ring");
    CHECK(now_ms() - before < LINGER_S * 1000 / 2, "a ring took %lu ms",
          (unsigned long)(now_ms() - before));
    raw_ring_unmap(&ring);
    close(sock);
    close(other);
    tdaemon_stop(d);
}

/* ---- the porter -------------------------------------------------------------------------------
 */

static int sealed_memfd(size_t bytes) {
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 &&
              fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0,
          "memfd: %s", strerror(errno));
    return fd;
}

static void import(int sock) {
    struct {
        struct rdmad_msg_header header;
        struct rdmad_pool_import_req body;
    } m = {.body = {.bytes = 1 << 20}};
    struct raw_packet reply;
    int fd = sealed_memfd(1 << 20);
    raw_header(&m.header, RDMAD_MSG_POOL_IMPORT, sizeof(m.body));
    int rc = raw_send(sock, &m, sizeof(m), &fd, 1);
    CHECK(rc == 0, "send: %s", strerror(-rc));
    CHECK(raw_recv(sock, &reply, (int)TEST_PATIENCE_MS) && reply.size, "no answer to an import");
    CHECK(reply.header.status == 0, "import: %s", raw_text(&reply));
    close(fd);
}

static void a_porter_that_was_killed_is_replaced_and_sessions_go_on(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    int sock = raw_session(tdaemon_dir(d));
    struct raw_pool pool;
    import(sock);
    for (int i = 0; i < 3; i++) {
        tdaemon_kill_porter(d);
        CHECK(raw_pool_create(sock, 4096, 0, &pool) == 0, "pool");
        raw_pool_unmap(&pool);
        import(sock);
    }
    close(sock);
    tdaemon_stop(d);
}

static void read_status(pid_t pid, const char *key, char *value, size_t size) {
    char path[64], line[256];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    CHECK(f, "%s: %s", path, strerror(errno));
    *value = '\0';
    while (!*value && fgets(line, sizeof(line), f))
        if (strncmp(line, key, strlen(key)) == 0)
            snprintf(value, size, "%s", line + strlen(key) + 2);
    fclose(f);
    value[strcspn(value, "\n")] = '\0';
}

/* When it has received anything. */
static void the_porter_has_no_privileges(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    char value[128];
    int sock = raw_session(tdaemon_dir(d));
    import(sock);
    pid_t porter = tdaemon_porter(d);
    read_status(porter, "CapEff", value, sizeof(value));
    CHECK(strtoull(value, NULL, 16) == 0, "effective capabilities: %s", value);
    read_status(porter, "CapPrm", value, sizeof(value));
    CHECK(strtoull(value, NULL, 16) == 0, "permitted capabilities: %s", value);
    read_status(porter, "NoNewPrivs", value, sizeof(value));
    CHECK(strcmp(value, "1") == 0, "no_new_privs: %s", value);
    if (test_sanitized()) {
        printf("the filter of system calls: skipped, a sanitizer's build has none\n");
    } else {
        read_status(porter, "Seccomp", value, sizeof(value));
        CHECK(strcmp(value, "2") == 0, "no filter of system calls: Seccomp is %s", value);
    }
    read_status(porter, "Uid", value, sizeof(value));
    CHECK(getuid() || strtoul(value, NULL, 10) != 0, "it is still root: %s", value);
    close(sock);
    tdaemon_stop(d);
}

static void the_porter_ends_with_a_daemon_that_is_killed(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    pid_t porter = tdaemon_porter(d);
    tdaemon_kill(d);
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    while (waitpid(porter, NULL, WNOHANG) == 0) { /* the case inherits it */
        CHECK(now_ms() < deadline, "the porter goes on without its daemon");
        sleep_ms(5);
    }
    tdaemon_restart(d);
    close(raw_session(tdaemon_dir(d)));
    tdaemon_stop(d);
}

/* As an ignored signal outlives exec, a supervisor's choice is the daemon's at first. */
static void a_porter_is_replaced_though_who_started_the_daemon_ignores_its_children(void) {
    signal(SIGCHLD, SIG_IGN);
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    signal(SIGCHLD, SIG_DFL);
    tdaemon_kill_porter(d);
    close(raw_session(tdaemon_dir(d)));
    tdaemon_stop(d);
}

/* ---- control.sock -----------------------------------------------------------------------------
 */

static int connect_control(const char *dir) {
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/control.sock", dir);
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(sock >= 0 && connect(sock, (struct sockaddr *)&sa, sizeof(sa)) == 0, "%s: %s",
          sa.sun_path, strerror(errno));
    return sock;
}

static void send_to_control(void) {
    int socks[6], cargo[6];
    load(cargo, 6, each_second);
    for (int i = 0; i < 6; i++)
        socks[i] = connect_control(hostile_dir);
    command('s');
    for (int i = 0; i < 6; i++) {
        CHECK(i % 3 || send(socks[i], "{", 1, 0) == 1, "send");
        int rc = raw_send(socks[i], "x", 1, &cargo[i], 1);
        CHECK(rc == 0, "send: %s", strerror(-rc));
        if (i > 2)
            close(socks[i]);
    }
    let_go(cargo, 6);
    command('c');
    sleep_ms(1500);
}

/* Its mode keeps most out; whom it lets in may look, and no more. */
static void descriptors_on_the_administrations_socket_hold_up_nobody(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    char path[128];
    snprintf(path, sizeof(path), "%s/control.sock", tdaemon_dir(d));
    CHECK(chmod(path, 0666) == 0, "%s", path);
    unsigned fds = tdaemon_fds(d);
    struct bystander *b = bystander_start(d);
    run_hostile(d, send_to_control);
    bystander_stop(b, "lingering sockets on control.sock");
    tdaemon_expect_fds(d, fds);
    tdaemon_stop(d);
}

/* More than the porter's pair takes, and its queue before nobody is let in: each is gone, and has
 * something unread. They come while the daemon sleeps, so that it reads nothing of it before. */
static void crowd_the_porter(const struct tdaemon *d) {
    process_stop(tdaemon_pid(d));
    for (int i = 0; i < CROWD; i++) {
        int sock = raw_connect(tdaemon_dir(d));
        CHECK(send(sock, "", 0, 0) == 0 && send(sock, "x", 1, 0) == 1, "send");
        close(sock);
    }
    process_go_on(tdaemon_pid(d));
}

static bool answers(int sock, int timeout_ms) {
    struct pollfd p = {.fd = sock, .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

static void expect_porter_asleep(pid_t porter) {
    if (!process_is_stopped(porter))
        skip("this machine is too slow: the porter that sleeps was replaced meanwhile");
}

/* Reading what the crowd left takes a busy daemon a while. */
static void await_door_shut(const struct tdaemon *d, pid_t porter) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    while (!tdaemon_logged(d, "nobody is let in")) {
        expect_porter_asleep(porter);
        CHECK(now_ms() < deadline, "who comes is let in while the porter is behind");
        sleep_ms(10);
    }
}

/* What callers leave behind is the porter's work, too. */
static void while_the_porter_is_behind_nobody_is_let_in_at_either_socket(void) {
    static const char ask[] = "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"status\"}\n";
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    unsigned fds = tdaemon_fds(d);
    pid_t porter = tdaemon_porter(d);
    process_stop(porter);
    crowd_the_porter(d);
    await_door_shut(d, porter);
    int client = raw_connect(tdaemon_dir(d)), control = connect_control(tdaemon_dir(d));
    CHECK(send(client, "?", 1, 0) == 1 && send(control, ask, strlen(ask), 0) > 0, "send");
    bool client_in = answers(client, 500), control_in = answers(control, 500);
    expect_porter_asleep(porter);
    CHECK(!client_in, "a client is let in while the porter is behind");
    CHECK(!control_in, "a caller of control.sock is let in while the porter is behind");
    process_go_on(porter);
    CHECK(answers(client, (int)TEST_PATIENCE_MS), "a client is not let in again");
    CHECK(answers(control, (int)TEST_PATIENCE_MS), "a caller of control.sock is not let in again");
    close(client);
    close(control);
    tdaemon_expect_fds(d, fds);
    tdaemon_stop(d);
}

/* ---- who may connect --------------------------------------------------------------------------
 */

static const char *write_config(const char *text) {
    static char path[128];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/door.json", tmp ? tmp : "/tmp");
    FILE *f = fopen(path, "we");
    CHECK(f && fputs(text, f) > 0 && fclose(f) == 0, "%s", path);
    return path;
}

static gid_t group_id;

static void connect_as_a_stranger(void *dir) {
    become(HOSTILE_UID, HOSTILE_UID);
    raw_expect_turned_away(dir, RDMAD_E_PERM, "socket_group");
}

static void connect_as_a_member(void *dir) {
    become(HOSTILE_UID, group_id);
    close(raw_session(dir));
}

static void connect_as_one_with_the_group_among_others(void *dir) {
    CHECK(setgroups(2, (const gid_t[]){4242, group_id}) == 0, "setgroups");
    CHECK(!setresgid(HOSTILE_UID, HOSTILE_UID, HOSTILE_UID) &&
              !setresuid(HOSTILE_UID, HOSTILE_UID, HOSTILE_UID),
          "cannot become uid %u", HOSTILE_UID);
    close(raw_session(dir));
}

/* A socket that systemd made has the mode that its unit says. */
static void socket_group_holds_whatever_the_sockets_mode(void) {
    if (getuid())
        skip("needs root, to be somebody else");
    const struct group *g = getgrnam("daemon");
    if (!g)
        skip("there is no group 'daemon' here");
    group_id = g->gr_gid;
    const char *config = write_config("{\"socket_group\": \"daemon\"}\n");
    struct tdaemon *d = tdaemon_start("127.0.0.1", (const char *[]){"--config", config, NULL});
    char path[128], dir[64];
    snprintf(path, sizeof(path), "%s/rdmad.sock", tdaemon_dir(d));
    snprintf(dir, sizeof(dir), "%s", tdaemon_dir(d));
    CHECK(chmod(path, 0666) == 0, "%s", path);
    client_expect_ok(client_fork(connect_as_a_stranger, dir));
    client_expect_ok(client_fork(connect_as_a_member, dir));
    client_expect_ok(client_fork(connect_as_one_with_the_group_among_others, dir));
    close(raw_session(dir)); /* root may */
    json_t *status = tdaemon_status(d);
    const char *shown =
        json_string_value(json_object_get(json_object_get(status, "clients"), "group"));
    CHECK(shown && strcmp(shown, "daemon") == 0, "status shows group %s", shown ? shown : "none");
    json_decref(status);
    unlink(config);
    tdaemon_stop(d);
}

/* ---- where it lives ----------------------------------------------------------------------------
 */

static char base_dir[96], rdmad[512];

static void expect_no_start(const char *dir, const char *words) {
    char out[8192];
    const char *const argv[] = {"/usr/bin/timeout", "20",          rdmad, "--runtime-dir", dir,
                                "--listen",         "127.0.0.1:0", NULL};
    int code = run_program(argv, out, sizeof(out));
    CHECK(code == 1, "exit code %d:\n%s", code, out);
    CHECK(strstr(out, words) && strstr(out, "not safe"), "does not say \"%s\" but:\n%s", words,
          out);
}

static void a_runtime_directory_of_somebody_elses_is_refused(void) {
    if (getuid())
        skip("needs root, to give a directory away");
    const char *tmp = getenv("TMPDIR");
    char deep[128];
    build_path("daemon/rdmad", rdmad, sizeof(rdmad));
    snprintf(base_dir, sizeof(base_dir), "%s/whose.XXXXXX", tmp ? tmp : "/tmp");
    CHECK(mkdtemp(base_dir), "%s", base_dir);
    snprintf(deep, sizeof(deep), "%s/deep", base_dir);
    CHECK(mkdir(deep, 0755) == 0, "%s", deep);
    CHECK(chown(deep, HOSTILE_UID, HOSTILE_UID) == 0, "chown");
    expect_no_start(deep, "belongs to uid 65532");
    CHECK(chown(deep, 0, 0) == 0 && chmod(deep, 0777) == 0, "chown");
    expect_no_start(deep, "everybody may write to");
    CHECK(chmod(deep, 01777) == 0, "chmod");
    expect_no_start(deep, "everybody may write to");
    CHECK(chmod(deep, 0755) == 0 && chmod(base_dir, 0777) == 0, "chmod");
    expect_no_start(deep, "which is above it");
    CHECK(chmod(base_dir, 0755) == 0 && chown(base_dir, HOSTILE_UID, HOSTILE_UID) == 0, "chown");
    expect_no_start(deep, "which is above it");
    CHECK(rmdir(deep) == 0 && rmdir(base_dir) == 0, "something was left behind: %s",
          strerror(errno));
}

TEST_MAIN(CASE(lingering_sockets_in_packets_hold_up_nobody),
          CASE(lingering_sockets_that_nobody_read_hold_up_nobody_and_do_not_stay),
          CASE(floods_of_descriptors_hold_up_nobody_and_do_not_stay),
          CASE(circles_of_sockets_hold_up_nobody),
          CASE(who_waits_for_its_own_descriptor_is_served_otherwise),
          CASE(a_porter_that_was_killed_is_replaced_and_sessions_go_on),
          CASE(the_porter_has_no_privileges), CASE(the_porter_ends_with_a_daemon_that_is_killed),
          CASE(a_porter_is_replaced_though_who_started_the_daemon_ignores_its_children),
          CASE(descriptors_on_the_administrations_socket_hold_up_nobody),
          CASE(while_the_porter_is_behind_nobody_is_let_in_at_either_socket),
          CASE(socket_group_holds_whatever_the_sockets_mode),
          CASE(a_runtime_directory_of_somebody_elses_is_refused))
