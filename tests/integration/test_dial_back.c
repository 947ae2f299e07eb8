/* SPDX-License-Identifier: MIT */
/*
 * test_dial_back.c - a program that says it is a daemon asks for a channel with a service, and
 * names somebody else's address to be dialled back: the service's daemon connects there only when
 * its administrator allows it.
 */
#include "tests/integration/false_peer.h"
#include "tests/support/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define VICTIM "127.0.0.9"

static int victim_listen(uint16_t *port) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(inet_pton(AF_INET, VICTIM, &at.sin_addr) == 1, VICTIM);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 8) == 0, "%s: %s",
          VICTIM, strerror(errno));
    CHECK(getsockname(fd, (struct sockaddr *)&at, &size) == 0, "%s", strerror(errno));
    *port = ntohs(at.sin_port);
    return fd;
}

static bool was_dialled(int fd, int ms) {
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    return poll(&waiting, 1, ms) == 1;
}

static struct tdaemon *start_willing(void) {
    char path[128];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/willing.json", tmp ? tmp : "/tmp");
    FILE *f = fopen(path, "we");
    CHECK(f && fputs("{\"peer\": {\"dial_named\": true}}\n", f) > 0 && fclose(f) == 0, "%s", path);
    struct tdaemon *d = tdaemon_start("127.0.0.1", (const char *[]){"--config", path, NULL});
    unlink(path);
    return d;
}

struct scene {
    struct tdaemon *d;
    rdmad_session *s;
    rdmad_service *service;
    struct false_peer p;
    int victim;
    uint16_t port;
};

/* The false peer asks for a channel with "rpc", to be dialled back at the victim. */
static void scene_up(struct scene *c, struct tdaemon *d) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_REQ};
    c->d = d;
    c->victim = victim_listen(&c->port);
    c->s = client_open(d);
    CHECK(rdmad_listen(c->s, "rpc", NULL, &c->service) == 0, "%s", rdmad_last_error(c->s));
    false_peer_connect(&c->p, tdaemon_listen(d), test_fabric());
    m.chan_req =
        (struct peer_chan_req){.ref = 7, .port = c->port, .host = VICTIM, .service = "rpc"};
    false_peer_say(&c->p, &m);
}

static void scene_down(struct scene *c) {
    false_peer_close(&c->p);
    rdmad_close(c->s);
    close(c->victim);
    tdaemon_stop(c->d);
}

static void nobody_is_dialled_whom_a_stranger_names(void) {
    struct rdmad_incoming who = RDMAD_INCOMING_INIT;
    struct peer_msg m;
    struct scene c;
    scene_up(&c, tdaemon_start("127.0.0.1", NULL));
    CHECK(rdmad_next_incoming(c.service, 500, &who) == RDMAD_E_TIMEOUT, "the client is asked");
    false_peer_await(&c.p, PEER_MSG_CHAN_REFUSE, &m);
    printf("  said: %s\n", m.chan_refuse.text);
    CHECK(m.chan_refuse.status == RDMAD_E_PERM, "status %d", m.chan_refuse.status);
    CHECK(strstr(m.chan_refuse.text, VICTIM) && strstr(m.chan_refuse.text, "peer.dial_named"), "%s",
          m.chan_refuse.text);
    CHECK(tdaemon_logged(c.d, VICTIM), "the administrator is not told");
    CHECK(!was_dialled(c.victim, 200), "the victim was dialled");
    scene_down(&c);
}

static void whom_a_stranger_names_is_dialled_when_the_administrator_allows_it(void) {
    struct scene c;
    rdmad_channel *channel;
    scene_up(&c, start_willing());
    /* It is no daemon that answers there. */
    int rc = rdmad_accept(c.service, NULL, 500, &channel);
    CHECK(rc == RDMAD_E_TIMEOUT, "accept: %d, %s", rc, rdmad_last_error(c.s));
    CHECK(was_dialled(c.victim, 0), "the address was not dialled");
    scene_down(&c);
}

TEST_MAIN(CASE(nobody_is_dialled_whom_a_stranger_names),
          CASE(whom_a_stranger_names_is_dialled_when_the_administrator_allows_it))
