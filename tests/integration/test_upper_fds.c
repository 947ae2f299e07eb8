/* SPDX-License-Identifier: MIT */
/*
 * test_upper_fds.c - what a killed daemon must let go of first has numbers above all that a client
 * can hold up: its ports, its connections with other daemons, and its devices.
 */
#include "tests/support/pair.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TABLE = 1 << 20, LEAST_MAX = 131072 };

/* All TCP sockets of its network namespace, as text. */
static void read_sockets(pid_t pid, char *text) {
    static const char *const tables[] = {"tcp", "tcp6"};
    size_t used = 0;
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, tables[i]);
        FILE *f = fopen(path, "re");
        if (!f)
            continue; /* a machine without IPv6 */
        used += fread(text + used, 1, TABLE - 1 - used, f);
        fclose(f);
    }
    text[used] = '\0';
}

/* what: what /proc says a descriptor is of. */
static bool must_be_above(const char *what, const char *sockets) {
    char inode[32];
    unsigned long number;
    if (sscanf(what, "socket:[%lu]", &number) == 1) {
        snprintf(inode, sizeof(inode), " %lu ", number);
        return strstr(sockets, inode) != NULL;
    }
    return strncmp(what, "/dev/infiniband/uverbs", 22) == 0 || strstr(what, "[infinibandevent]");
}

static unsigned expect_above(const struct tdaemon *d) {
    pid_t pid = tdaemon_pid(d);
    char path[64], *sockets = malloc(TABLE);
    struct rlimit limit;
    unsigned found = 0;
    CHECK(sockets && prlimit(pid, RLIMIT_NOFILE, NULL, &limit) == 0, "prlimit");
    int least = limit.rlim_cur / 2 < LEAST_MAX ? (int)(limit.rlim_cur / 2) : LEAST_MAX;
    read_sockets(pid, sockets);
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *all = opendir(path);
    CHECK(all, "%s", path);
    for (struct dirent *e; (e = readdir(all));) {
        char what[128];
        ssize_t n = readlinkat(dirfd(all), e->d_name, what, sizeof(what) - 1);
        what[n > 0 ? n : 0] = '\0';
        if (n <= 0 || !must_be_above(what, sockets))
            continue;
        found++;
        CHECK(atoi(e->d_name) >= least, "%s has number %s, below %d", what, e->d_name, least);
    }
    closedir(all);
    free(sockets);
    return found;
}

static void ports_connections_and_devices_have_numbers_above_what_clients_share(void) {
    struct pair p;
    pair_open(&p, PAIR_LINK, 4096, RDMAD_RIGHTS_ALL);
    CHECK(rdmad_write(p.lease, 0, p.near, 64) == 0, "%s", rdmad_last_error(p.a));
    unsigned a = expect_above(p.da), b = expect_above(p.db);
    printf("  %u of the one, %u of the other\n", a, b);
    CHECK(a >= 3 && b >= 3, "some were not found");
    pair_close(&p);
}

TEST_MAIN(CASE(ports_connections_and_devices_have_numbers_above_what_clients_share))
