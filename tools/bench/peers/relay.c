/* Passes bytes between each client and a connection of its own to the upstream: what any relay at least costs. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct end {
  int fd;
  struct end *peer;
  char *held; /* what the peer's kernel did not take */
  size_t count;
};

static int epoll;

static void watch(struct end *end, int operation, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = end};
  epoll_ctl(epoll, operation, end->fd, &event);
}

static struct end *add(int fd) {
  int one = 1;
  struct end *end = calloc(1, sizeof *end);
  end->fd = fd;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return end;
}

static void drop(struct end *end) {
  close(end->fd);
  end->fd = -1;
  if (end->peer->fd >= 0) shutdown(end->peer->fd, SHUT_RDWR);
}

/* Writes to `to`; what it does not take is held, and `from` is not read meanwhile. */
static void pass(struct end *from, struct end *to, const char *bytes, size_t count) {
  ssize_t sent = send(to->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN) return;
  size_t rest = count - (sent < 0 ? 0 : (size_t)sent);
  if (rest == 0) return;
  to->held = realloc(to->held, rest);
  memcpy(to->held, bytes + count - rest, rest);
  to->count = rest;
  watch(to, EPOLL_CTL_MOD, EPOLLOUT);
  watch(from, EPOLL_CTL_MOD, 0);
}

static void on_writable(struct end *end) {
  ssize_t sent = send(end->fd, end->held, end->count, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return;
  memmove(end->held, end->held + sent, end->count - sent);
  end->count -= sent;
  if (end->count > 0) return;
  watch(end, EPOLL_CTL_MOD, EPOLLIN);
  watch(end->peer, EPOLL_CTL_MOD, EPOLLIN);
}

static void on_readable(struct end *end) {
  static char buffer[65536];
  ssize_t count = recv(end->fd, buffer, sizeof buffer, MSG_DONTWAIT);
  if (count > 0) pass(end, end->peer, buffer, count);
  else if (count == 0 || errno != EAGAIN) drop(end);
}

static struct sockaddr_in loopback(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  return address;
}

/* relay PORT UPSTREAM_PORT */
int main(int argc, char **argv) {
  if (argc != 3) return 2;
  int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in here = loopback(atoi(argv[1])), there = loopback(atoi(argv[2]));
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 4096)) return perror("relay"), 1;
  epoll = epoll_create1(0);
  struct end accepting = {.fd = listener};
  watch(&accepting, EPOLL_CTL_ADD, EPOLLIN);
  for (struct epoll_event events[256];;) {
    int count = epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < count; i++) {
      struct end *end = events[i].data.ptr;
      if (end == &accepting) {
        struct end *client = add(accept(listener, 0, 0)), *upstream = add(socket(AF_INET, SOCK_STREAM, 0));
        client->peer = upstream, upstream->peer = client;
        if (connect(upstream->fd, (struct sockaddr *)&there, sizeof there)) return perror("upstream"), 1;
        watch(client, EPOLL_CTL_ADD, EPOLLIN), watch(upstream, EPOLL_CTL_ADD, EPOLLIN);
      } else if (end->fd >= 0 && events[i].events & EPOLLOUT) on_writable(end);
      else if (end->fd >= 0) on_readable(end);
    }
  }
}
