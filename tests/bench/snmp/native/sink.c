/*
 * Receives notifications on a port of the loopback, and answers informs.
 *
 * sink PORT COUNT
 *
 * It prints a line when it listens; and when COUNT datagrams have arrived, or none for two seconds, how many
 * there were and the seconds from the first to the last one. An inform is answered with its own octets, as a
 * Response-PDU. It looks for more for a while before it sleeps, so that no sender pays for waking it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { AT_ONCE = 64, LARGEST = 2048, FIRST_MS = 60000, PATIENCE_MS = 2000, SHORT = 0x80 };
enum { SEQUENCE = 0x30, RESPONSE = 0xa2, INFORM = 0xa6 };
static const double AWAKE_SECONDS = 100e-6;

static unsigned char datagrams[AT_ONCE][LARGEST];
static struct sockaddr_in senders[AT_ONCE];
static struct iovec places[AT_ONCE];
static struct mmsghdr messages[AT_ONCE];

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

/* The place behind the tag and the length at this place. */
static size_t inside(const unsigned char *datagram, size_t place)
{
    unsigned char length = datagram[place + 1];
    return place + 2 + (length < SHORT ? 0 : length - SHORT);
}

/* Version and community have short lengths; the PDU follows them. */
static unsigned char *pdu(unsigned char *datagram)
{
    size_t version = inside(datagram, 0);
    size_t community = version + 2 + datagram[version + 1];
    return datagram + community + 2 + datagram[community + 1];
}

static int listening(const char *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t) atoi(port)) };
    int room = 1 << 24;
    int receiver = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    setsockopt(receiver, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    if (receiver < 0 || bind(receiver, (struct sockaddr *) &address, sizeof address) != 0) {
        perror("bind");
        exit(1);
    }
    return receiver;
}

/* The number of datagrams that wait, at most AT_ONCE; 0 if there is none in time. */
static int receive(int receiver, int patience)
{
    struct pollfd readable = { .fd = receiver, .events = POLLIN };
    double asleep = now() + AWAKE_SECONDS;
    for (;;) {
        for (int place = 0; place < AT_ONCE; place++)
            messages[place].msg_hdr.msg_namelen = sizeof senders[place];
        int count = recvmmsg(receiver, messages, AT_ONCE, 0, NULL);
        if (count > 0)
            return count;
        if (errno != EAGAIN) {
            perror("recvmmsg");
            exit(1);
        }
        if (now() > asleep && poll(&readable, 1, patience) == 0)
            return 0;
    }
}

int main(int count, char **arguments)
{
    if (count != 3) {
        fprintf(stderr, "sink PORT COUNT\n");
        return 2;
    }
    long wanted = atol(arguments[2]), received = 0;
    int receiver = listening(arguments[1]), arrived;
    double first = 0, last = 0;
    for (int place = 0; place < AT_ONCE; place++) {
        places[place] = (struct iovec) { datagrams[place], LARGEST };
        messages[place].msg_hdr = (struct msghdr) { .msg_name = &senders[place], .msg_iov = &places[place],
                                                    .msg_iovlen = 1 };
    }
    printf("listening\n");
    fflush(stdout);
    while (received < wanted && (arrived = receive(receiver, received ? PATIENCE_MS : FIRST_MS)) > 0) {
        last = now();
        first = first == 0 ? last : first;
        received += arrived;
        for (int place = 0; place < arrived; place++) {
            unsigned char *kind = pdu(datagrams[place]);
            if (datagrams[place][0] != SEQUENCE || *kind != INFORM)
                continue;
            *kind = RESPONSE;
            sendto(receiver, datagrams[place], messages[place].msg_len, 0, (struct sockaddr *) &senders[place],
                   sizeof senders[place]);
        }
    }
    printf("%ld %.6f\n", received, last - first);
    return 0;
}
