/* SPDX-License-Identifier: MIT */
/*
 * The listening socket: leftovers make way, living ones do not, and only what is ours is removed.
 */
#include "daemon/base/clock.h"
#include "daemon/ipc/kept.h"
#include "daemon/ipc/listener.h"
#include <criterion/criterion.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static char dir[] = "/tmp/rdmad-listener-XXXXXX", path[64];
static struct event_base *base;
static unsigned accepted;

static void set_up(void) {
    base = event_base_new();
    cr_assert_not_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/s.sock", dir);
}

static void tear_down(void) {
    unlink(path);
    rmdir(dir);
    event_base_free(base);
}

TestSuite(listener, .init = set_up, .fini = tear_down);

static void on_accept(void *user, int fd) {
    cr_assert_eq(user, &accepted);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    accepted++;
    close(fd);
}

static int start(struct listener **out, struct error *err) {
    struct listener_spec spec = {
        .path = path, .type = SOCK_SEQPACKET, .mode = 0666, .group = (gid_t)-1, .activated = -1};
    return listener_new(base, &spec, on_accept, &accepted, out, err);
}

static int dial(void) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    strcpy(a.sun_path, path);
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void turn(void) {
    for (int i = 0; i < 20; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
}

Test(listener, clients_are_accepted_and_the_file_goes_with_the_listener) {
    struct listener *l;
    struct stat st;
    cr_assert_eq(start(&l, NULL), 0);
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0666);
    int fds[100];
    for (int i = 0; i < 100; i++)
        cr_assert_geq(fds[i] = dial(), 0);
    turn();
    cr_assert_eq(accepted, 100);
    for (int i = 0; i < 100; i++)
        close(fds[i]);
    listener_free(l);
    cr_assert_neq(stat(path, &st), 0);
}

static void leave_one(void) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    strcpy(a.sun_path, path);
    cr_assert_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    close(fd);
}

Test(listener, a_leftover_is_replaced) {
    struct listener *l;
    leave_one();
    cr_assert_eq(start(&l, NULL), 0);
    int fd = dial();
    cr_assert_geq(fd, 0);
    close(fd);
    listener_free(l);
}

/* As root of a container is: it may give files away, and then has to ask like anybody. */
static void drop_powers(void) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {
        {.effective = 1u << CAP_CHOWN, .permitted = 1u << CAP_CHOWN}};
    if (geteuid())
        cr_skip_test("only root may give files away");
    cr_assert_eq(syscall(SYS_capset, &head, caps), 0);
}

Test(listener, a_leftover_that_belongs_to_a_tenant_is_replaced_in_a_container) {
    struct listener *l;
    drop_powers();
    leave_one();
    cr_assert_eq(chmod(path, 0600), 0);
    cr_assert_eq(chown(path, 1000, (gid_t)-1), 0);
    cr_assert_eq(start(&l, NULL), 0);
    close(dial());
    turn();
    cr_assert_eq(accepted, 1);
    listener_free(l);
}

Test(listener, one_that_answers_there_stays_its_tenants) {
    struct listener *l, *second;
    struct error err = {0};
    struct stat st;
    drop_powers();
    cr_assert_eq(start(&l, NULL), 0);
    cr_assert_eq(chmod(path, 0600), 0);
    cr_assert_eq(chown(path, 1000, (gid_t)-1), 0);
    cr_assert_eq(start(&second, &err), RDMAD_E_EXISTS);
    cr_assert(strstr(err.text, "somebody answers there"), "%s", err.text);
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(st.st_uid, 1000);
    listener_free(l);
}

Test(listener, a_socket_that_somebody_answers_on_is_left_alone) {
    struct listener *l, *second;
    struct error err;
    cr_assert_eq(start(&l, NULL), 0);
    cr_assert_eq(start(&second, &err), RDMAD_E_EXISTS);
    cr_assert_not_null(strstr(err.text, "another rdmad"));
    int fd = dial();
    cr_assert_geq(fd, 0, "the first still listens");
    close(fd);
    listener_free(l);
}

Test(listener, a_file_that_is_no_socket_is_left_alone) {
    struct listener *l;
    struct error err;
    close(open(path, O_CREAT | O_WRONLY, 0600));
    cr_assert_eq(start(&l, &err), RDMAD_E_EXISTS);
    cr_assert_eq(access(path, F_OK), 0);
}

Test(listener, a_file_that_somebody_put_in_our_place_is_not_removed) {
    struct listener *l;
    cr_assert_eq(start(&l, NULL), 0);
    unlink(path);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    listener_free(l);
    cr_assert_eq(access(path, F_OK), 0);
}

Test(listener, a_path_too_long_for_a_socket_is_an_error) {
    char longer[200];
    struct listener *l;
    struct error err;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    struct listener_spec spec = {
        .path = longer, .type = SOCK_SEQPACKET, .group = (gid_t)-1, .activated = -1};
    cr_assert_eq(listener_new(base, &spec, on_accept, NULL, &l, &err), RDMAD_E_CONFIG);
}

Test(listener, a_passed_socket_is_checked_before_it_is_used) {
    struct listener *l;
    struct error err;
    struct listener_spec spec = {.path = path, .type = SOCK_SEQPACKET, .group = (gid_t)-1};
    spec.activated = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(listener_new(base, &spec, on_accept, NULL, &l, &err), RDMAD_E_CONFIG);
    spec.activated = socket(AF_UNIX, SOCK_SEQPACKET, 0); /* does not listen */
    cr_assert_eq(listener_new(base, &spec, on_accept, NULL, &l, &err), RDMAD_E_CONFIG);
    spec.activated = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(listener_new(base, &spec, on_accept, NULL, &l, &err), RDMAD_E_CONFIG);
}

Test(listener, a_passed_socket_serves_and_its_file_stays) {
    struct listener *l;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct listener_spec spec = {.path = path, .type = SOCK_SEQPACKET, .group = (gid_t)-1};
    spec.activated = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    strcpy(a.sun_path, path);
    cr_assert_eq(bind(spec.activated, (struct sockaddr *)&a, sizeof(a)), 0);
    cr_assert_eq(listen(spec.activated, 5), 0);
    cr_assert_eq(listener_new(base, &spec, on_accept, &accepted, &l, NULL), 0);
    int fd = dial();
    turn();
    cr_assert_eq(accepted, 1);
    close(fd);
    listener_free(l);
    cr_assert_eq(access(path, F_OK), 0, "it is systemd's");
}

static gid_t group_of_path(void) {
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    return st.st_gid;
}

/* One of group 54321 is kept for a life whose settings name none. */
static int take_kept(struct listener **out, struct error *err) {
    struct kept kept = {.count = 0};
    struct listener_spec spec = {
        .path = path, .type = SOCK_SEQPACKET, .mode = 0660, .group = 54321, .activated = -1};
    struct listener *l;
    cr_assert_eq(listener_new(base, &spec, on_accept, &accepted, &l, NULL), 0);
    cr_assert_eq(group_of_path(), 54321);
    cr_assert(listener_keep(l, &kept));
    listener_free(l);
    spec.group = (gid_t)-1;
    spec.kept = &kept;
    return listener_new(base, &spec, on_accept, &accepted, out, err);
}

Test(listener, one_that_is_kept_belongs_to_whom_it_would_if_it_were_made_now) {
    struct listener *l;
    if (geteuid())
        cr_skip("only root may give it to any group");
    cr_assert_eq(take_kept(&l, NULL), 0);
    cr_assert_eq(group_of_path(), getegid(), "its former group may still connect");
    listener_free(l);
    cr_assert_eq(chown(dir, (uid_t)-1, 54322), 0);
    cr_assert_eq(chmod(dir, 02755), 0);
    cr_assert_eq(take_kept(&l, NULL), 0);
    cr_assert_eq(group_of_path(), 54322, "the directory's group may not connect any more");
    listener_free(l);
}

Test(listener, what_was_put_in_the_place_of_one_that_is_kept_is_not_taken_for_it) {
    struct kept kept = {.count = 0};
    struct listener_spec spec = {
        .path = path, .type = SOCK_SEQPACKET, .mode = 0660, .group = (gid_t)-1, .activated = -1};
    struct listener *l;
    struct error err;
    struct stat st;
    char other[80];
    cr_assert_eq(listener_new(base, &spec, on_accept, &accepted, &l, NULL), 0);
    cr_assert(listener_keep(l, &kept));
    listener_free(l);
    snprintf(other, sizeof(other), "%s/other", dir);
    cr_assert_geq(creat(other, 0600), 0);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(symlink(other, path), 0);
    spec.kept = &kept;
    cr_assert_eq(listener_new(base, &spec, on_accept, &accepted, &l, &err), RDMAD_E_EXISTS);
    cr_assert_eq(stat(other, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0600, "%o", st.st_mode);
    unlink(other);
}

Test(listener, without_descriptors_accepting_rests_and_then_goes_on) {
    struct listener *l;
    struct rlimit before, none;
    cr_assert_eq(start(&l, NULL), 0);
    int fd = dial(), spare = dup(0);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)spare;
    close(spare);
    setrlimit(RLIMIT_NOFILE, &none);
    uint64_t began_ns = clock_now_ns();
    turn();
    setrlimit(RLIMIT_NOFILE, &before);
    cr_assert_eq(accepted, 0);
    turn();
    cr_assert(accepted == 0 || clock_now_ns() - began_ns >= 100 * NSEC_PER_MSEC,
              "it rests: a readable socket does not spin the loop");
    usleep(150000);
    turn();
    cr_assert_eq(accepted, 1);
    close(fd);
    listener_free(l);
}

/* ---- whether it could be started ------------------------------------------------------------ */

static int check(const struct kept *known, gid_t group, struct error *err) {
    struct kept copy = known ? *known : (struct kept){.count = 0};
    struct listener_spec spec = {.path = path,
                                 .type = SOCK_SEQPACKET,
                                 .mode = 0666,
                                 .group = group,
                                 .activated = -1,
                                 .kept = known ? &copy : NULL};
    return listener_check(&spec, err);
}
#define ANY_GROUP ((gid_t)-1)

static const struct kept nothing;

Test(listener, a_check_makes_nothing_and_takes_nothing) {
    struct error err;
    cr_assert_eq(check(&nothing, ANY_GROUP, &err), 0);
    cr_assert_neq(access(path, F_OK), 0, "it has made the socket");
    leave_one();
    cr_assert_eq(check(&nothing, ANY_GROUP, &err), 0);
    cr_assert_eq(access(path, F_OK), 0, "it has removed the leftover");
}

Test(listener, a_check_says_what_a_start_would) {
    struct listener *l;
    struct error err;
    close(open(path, O_CREAT | O_WRONLY, 0600));
    cr_assert_eq(check(&nothing, ANY_GROUP, &err), RDMAD_E_EXISTS);
    cr_assert_eq(check(NULL, ANY_GROUP, &err), RDMAD_E_EXISTS);
    unlink(path);
    cr_assert_eq(start(&l, NULL), 0);
    cr_assert_eq(check(&nothing, ANY_GROUP, &err), RDMAD_E_EXISTS);
    cr_assert_not_null(strstr(err.text, "somebody answers there"), "%s", err.text);
    cr_assert_eq(check(NULL, ANY_GROUP, &err), 0, "it may be the daemon that is asked of");
    listener_free(l);
    strcat(path, ".d/s.sock");
    cr_assert_eq(check(&nothing, ANY_GROUP, &err), RDMAD_E_SYSTEM);
    cr_assert_not_null(strstr(err.text, "cannot be bound: No such file"), "%s", err.text);
}

Test(listener, what_will_be_left_to_it_is_in_nobodys_way) {
    struct kept told = {.count = 0};
    struct listener *l;
    struct error err;
    cr_assert_eq(start(&l, NULL), 0);
    cr_assert(listener_tell(l, &told));
    cr_assert_eq(check(&told, ANY_GROUP, &err), 0);
    listener_free(l);
    cr_assert_neq(access(path, F_OK), 0, "it was told of, not kept");
}

Test(listener, a_group_that_it_may_not_give_is_found_by_a_check) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {{0}};
    struct kept told = {.count = 1};
    struct error err;
    cr_assert_eq(syscall(SYS_capset, &head, none), 0);
    cr_assert_eq(check(&nothing, 54321, &err), RDMAD_E_PERM);
    cr_assert_eq(check(&nothing, getegid(), &err), 0);
    strcpy(told.socket[0].path, path);
    strcpy(told.socket[0].name, KEPT_NAME);
    cr_assert_eq(check(&told, 54321, &err), RDMAD_E_PERM);
    strcpy(told.socket[0].name, "rdmad.sock");
    cr_assert_eq(check(&told, 54321, &err), 0, "the service manager's is as it has made it");
}
