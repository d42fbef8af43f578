/* SPDX-License-Identifier: Apache-2.0 */
/* A network of some latency between all ranks. Load it with LD_PRELOAD; nothing else changes.
 * - STRATA_SLOW_LINK_US: whoever waits for messages of MPI gets them so many microseconds late, through MPI's profiling
 *   interface. A thread that waits sleeps, so that it takes no core from others.
 * - STRATA_SLOW_SOCKETS_US: what recv() finds in a socket that was empty is there so much later. NCCL's sockets read
 *   with it. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

static void wait_for_the_network(void) {
  static __thread int precise = 0;
  const char* text = getenv("STRATA_SLOW_LINK_US");
  const double microseconds = text == NULL ? 0 : atof(text);
  if (microseconds <= 0) return;
  if (!precise) precise = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL) == 0;
  const double seconds = microseconds * 1e-6;
  struct timespec duration = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&duration, NULL);
}

int MPI_Testall(int count, MPI_Request requests[], int* done, MPI_Status statuses[]) {
  const int code = PMPI_Testall(count, requests, done, statuses);
  if (count > 0 && *done) wait_for_the_network();
  return code;
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  const int code = PMPI_Test(request, done, status);
  if (*done) wait_for_the_network();
  return code;
}

int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm communicator) {
  const int code = PMPI_Allreduce(send, receive, count, type, op, communicator);
  wait_for_the_network();
  return code;
}

typedef ssize_t Receive(int, void*, size_t, int);

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* Of a socket, which one thread reads at a time. */
enum { kSockets = 4096 };
static double found_at[kSockets];      /* 0: it was empty when last looked at */
static unsigned char flows[kSockets];  /* what it had was held back for long enough */

/* Whether what lies in the socket is not there yet. */
static int is_on_its_way(int socket, Receive* receive, double latency) {
  char byte;
  if (flows[socket] || receive(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) return 0;
  if (found_at[socket] == 0) found_at[socket] = now_us();
  if (now_us() - found_at[socket] < latency) return 1;
  found_at[socket] = 0;
  flows[socket] = 1;
  return 0;
}

ssize_t recv(int socket, void* buffer, size_t size, int flags) {
  Receive* const receive = (Receive*)dlsym(RTLD_NEXT, "recv");
  const char* text = getenv("STRATA_SLOW_SOCKETS_US");
  const double latency = text == NULL ? 0 : atof(text);
  if (latency <= 0 || socket < 0 || socket >= kSockets || size == 0 || (flags & MSG_DONTWAIT) == 0)
    return receive(socket, buffer, size, flags);
  if (is_on_its_way(socket, receive, latency)) {
    errno = EAGAIN;
    return -1;
  }
  const ssize_t received = receive(socket, buffer, size, flags);
  if (received < 0) flows[socket] = 0;
  return received;
}
