/* SPDX-License-Identifier: MIT */
/*
 * proxy.c - see proxy.h. One lock over everything: the thread has it for each of its turns.
 *
 * The test forks meanwhile, and a lock of the allocator that the thread had at that moment would
 * stay locked in the child for ever (AddressSanitizer's does). So the thread never calls malloc,
 * and proxy_start returns when it runs: what starts a thread calls malloc.
 */
#include "tests/support/proxy.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORTS = 8, FLOWS = 512, CHUNK = 65536, HELD_MAX = 64 << 20 };

struct pipe { /* one way */
    uint8_t *bytes;
    size_t size, room;
    bool ended, closed; /* nothing more comes; and that was passed on */
};

struct flow {
    int fd[2];           /* who dialled, and the daemon */
    struct pipe from[2]; /* read from that one */
    bool held;
};

struct proxy {
    pthread_mutex_t lock;
    pthread_barrier_t runs;
    pthread_t thread;
    char host[32], to[32];
    uint16_t port[PORTS];
    int listener[PORTS];
    unsigned ports, flows;
    struct flow flow[FLOWS];
    bool stop;
};

static struct sockaddr_in place(const char *host, uint16_t port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    CHECK(inet_pton(AF_INET, host, &at.sin_addr) == 1, "%s", host);
    return at;
}

/* ---- the daemon's ports -------------------------------------------------------------------- */

static bool has_socket(pid_t pid, unsigned long inode) {
    char dir[64], path[360], is[64], wanted[64];
    bool found = false;
    snprintf(dir, sizeof(dir), "/proc/%d/fd", (int)pid);
    snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
    DIR *d = opendir(dir);
    CHECK(d, "%s: %s", dir, strerror(errno));
    for (struct dirent *e; !found && (e = readdir(d));) {
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        ssize_t n = readlink(path, is, sizeof(is) - 1);
        found = n > 0 && (size_t)n == strlen(wanted) && !memcmp(is, wanted, (size_t)n);
    }
    closedir(d);
    return found;
}

static void find_ports(struct proxy *p, pid_t pid) {
    char line[512];
    FILE *f = fopen("/proc/net/tcp", "re");
    CHECK(f, "/proc/net/tcp: %s", strerror(errno));
    while (fgets(line, sizeof(line), f)) {
        unsigned port, state;
        unsigned long inode;
        if (sscanf(line, "%*d: %*x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*d %*d %lu", &port, &state,
                   &inode) == 3 &&
            state == 10 && has_socket(pid, inode) && p->ports < PORTS)
            p->port[p->ports++] = (uint16_t)port;
    }
    fclose(f);
    CHECK(p->ports >= 2, "the daemon listens on %u ports", p->ports);
}

/* ---- flows --------------------------------------------------------------------------------- */

static void begin(struct proxy *p, unsigned which) {
    struct sockaddr_in to = place(p->to, p->port[which]), from = place(p->host, 0);
    int fd = accept4(p->listener[which], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    int one = 1, there = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(there >= 0 && p->flows < FLOWS, "no more flows: %s", strerror(errno));
    /* What waits out its time afterwards must not keep the next proxy from its ports. */
    if (setsockopt(there, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
        bind(there, (struct sockaddr *)&from, sizeof(from)) ||
        connect(there, (struct sockaddr *)&to, sizeof(to))) {
        close(there);
        close(fd);
        return;
    }
    p->flow[p->flows++] = (struct flow){.fd = {fd, there}};
}

static void make_room(struct pipe *in) {
    const size_t room = 2 * in->room + CHUNK;
    void *bytes =
        in->room ? mremap(in->bytes, in->room, room, MREMAP_MAYMOVE)
                 : mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(bytes != MAP_FAILED, "no memory for what is held back: %s", strerror(errno));
    in->bytes = bytes;
    in->room = room;
}

static void take_in(struct flow *f, int side) {
    struct pipe *in = &f->from[side];
    while (!in->ended && in->size < HELD_MAX && (f->held || in->size < CHUNK)) {
        if (in->room - in->size < CHUNK)
            make_room(in);
        ssize_t n = recv(f->fd[side], in->bytes + in->size, CHUNK, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n > 0)
            in->size += (size_t)n;
        else
            in->ended = true;
    }
}

static void pass_on(struct flow *f, int side) {
    struct pipe *in = &f->from[side];
    int to = f->fd[!side];
    while (in->size) {
        ssize_t n = send(to, in->bytes, in->size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) { /* refused */
            in->size = 0;
            in->ended = true;
            break;
        }
        in->size -= (size_t)n;
        memmove(in->bytes, in->bytes + n, in->size);
    }
    if (in->ended && !in->closed) {
        shutdown(to, SHUT_WR);
        in->closed = true;
    }
}

static void end(struct flow *f) {
    for (int side = 0; side < 2; side++) {
        close(f->fd[side]);
        if (f->from[side].room)
            munmap(f->from[side].bytes, f->from[side].room);
    }
}

static void turn(struct proxy *p) {
    for (unsigned i = 0; i < p->flows;) {
        struct flow *f = &p->flow[i];
        for (int side = 0; side < 2; side++) {
            take_in(f, side);
            if (!f->held)
                pass_on(f, side);
        }
        if (f->from[0].closed && f->from[1].closed) {
            end(f);
            *f = p->flow[--p->flows];
        } else {
            i++;
        }
    }
}

static void *run(void *arg) {
    struct proxy *p = arg;
    pthread_barrier_wait(&p->runs);
    for (bool stop = false; !stop;) {
        struct pollfd on[PORTS + 2 * FLOWS];
        unsigned n = 0;
        pthread_mutex_lock(&p->lock);
        for (unsigned i = 0; i < p->ports; i++)
            on[n++] = (struct pollfd){.fd = p->listener[i], .events = POLLIN};
        for (unsigned i = 0; i < p->flows; i++)
            for (int side = 0; side < 2; side++)
                if (!p->flow[i].from[side].ended)
                    on[n++] = (struct pollfd){.fd = p->flow[i].fd[side], .events = POLLIN};
        pthread_mutex_unlock(&p->lock);
        poll(on, n, 1);
        pthread_mutex_lock(&p->lock);
        for (unsigned i = 0; i < p->ports; i++)
            if (on[i].revents & POLLIN)
                begin(p, i);
        turn(p);
        stop = p->stop;
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

/* ---- what tests call ----------------------------------------------------------------------- */

/* The daemon's ports have to be free at it, so it is nobody else's: made of the process's number.
 */
static void choose_host(struct proxy *p) {
    unsigned pid = (unsigned)getpid();
    snprintf(p->host, sizeof(p->host), "127.%u.%u.%u", 64 + (pid >> 16) % 64, (pid >> 8) % 256,
             pid % 256);
}

struct proxy *proxy_start(const struct tdaemon *to) {
    struct proxy *p = calloc(1, sizeof(*p));
    CHECK(p, "no memory for a proxy");
    int one = 1;
    choose_host(p);
    snprintf(p->to, sizeof(p->to), "%.*s", (int)strcspn(tdaemon_listen(to), ":"),
             tdaemon_listen(to));
    find_ports(p, tdaemon_pid(to));
    for (unsigned i = 0; i < p->ports; i++) {
        struct sockaddr_in at = place(p->host, p->port[i]);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        CHECK(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) &&
                  !bind(fd, (struct sockaddr *)&at, sizeof(at)) && !listen(fd, 64),
              "%s:%u: %s", p->host, p->port[i], strerror(errno));
        p->listener[i] = fd;
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_barrier_init(&p->runs, NULL, 2);
    CHECK(!pthread_create(&p->thread, NULL, run, p), "no thread for a proxy");
    pthread_barrier_wait(&p->runs);
    return p;
}

const char *proxy_host(const struct proxy *p) {
    return p->host;
}

void proxy_uri(const struct proxy *p, const char *uri, char through[RDMAD_URI_MAX + 1]) {
    const char *at = strstr(uri, p->to);
    CHECK(at, "%s is not in %s", p->to, uri);
    snprintf(through, RDMAD_URI_MAX + 1, "%.*s%s%s", (int)(at - uri), uri, p->host,
             at + strlen(p->to));
}

void proxy_hold(struct proxy *p) {
    pthread_mutex_lock(&p->lock);
    for (unsigned i = 0; i < p->flows; i++)
        p->flow[i].held = true;
    pthread_mutex_unlock(&p->lock);
}

size_t proxy_held(struct proxy *p) {
    size_t held = 0;
    pthread_mutex_lock(&p->lock);
    for (unsigned i = 0; i < p->flows; i++)
        held += p->flow[i].held ? p->flow[i].from[0].size : 0;
    pthread_mutex_unlock(&p->lock);
    return held;
}

void proxy_release(struct proxy *p) {
    bool more = true;
    pthread_mutex_lock(&p->lock);
    for (unsigned i = 0; i < p->flows; i++)
        p->flow[i].held = false;
    pthread_mutex_unlock(&p->lock);
    for (uint64_t since = now_ms(); more; sleep_ms(1)) {
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "what was held back is not taken");
        more = false;
        pthread_mutex_lock(&p->lock);
        for (unsigned i = 0; i < p->flows; i++)
            more |= p->flow[i].from[0].size != 0;
        pthread_mutex_unlock(&p->lock);
    }
}

/* The thread closes them in its next turn. */
void proxy_cut(struct proxy *p) {
    pthread_mutex_lock(&p->lock);
    for (unsigned i = 0; i < p->flows; i++) {
        struct flow *f = &p->flow[i];
        f->held = false;
        for (int side = 0; side < 2; side++) {
            f->from[side].size = 0;
            f->from[side].ended = true;
            shutdown(f->fd[side], SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&p->lock);
}

void proxy_stop(struct proxy *p) {
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    while (p->flows)
        end(&p->flow[--p->flows]);
    for (unsigned i = 0; i < p->ports; i++)
        close(p->listener[i]);
    pthread_barrier_destroy(&p->runs);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
