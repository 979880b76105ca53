// Updates written into a cache along an axis from each batch's place on, into a y that is a copy of the cache.
//
// y is [batch][lines][places][inner], the updates are [batch][lines][given][inner]. A ticket is a run of lines.
//
// updates, starts, out    starts may be CLGRAPH_NULL: then all are 0
// inner                   bytes from one place to the next
// wide                    starts of 8 bytes, else 4
// circular                1: what is beyond the end goes on at the front;  0: an update outside is left out
// rows, lines             lines of all batches, of one;  places, given: sizes;  ticket_rows: lines of a ticket
#include "neighbours.clh"

static void update_rows(__global const update_rows_desc* d, __global char** banks, __global char* scratch, const int ticket,
                        __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_rows, d->rows), places = d->places, given = d->given;
  const long inner = d->inner;
  for (int r = ticket * d->ticket_rows; r < last; r++) {
    const int batch = r / d->lines;
    long start = 0;
    if (d->starts != CLGRAPH_NULL)
      start = d->wide ? AT(const long, banks, d->starts)[batch] : (long)(AT(const int, banks, d->starts)[batch]);
    __global const char* from = AT(const char, banks, d->updates) + (long)r * given * inner;
    __global char* to = AT(char, banks, d->out) + (long)r * places * inner;
    if (d->circular) {
      const long place = (start % places + places) % places, straight = min((long)given, places - place);
      copy_neighbours(from, to + place * inner, straight * inner);
      copy_neighbours(from + straight * inner, to, (given - straight) * inner);
    } else {
      const long first = clamp(-start, 0L, (long)given), end = clamp(places - start, first, (long)given);
      copy_neighbours(from + first * inner, to + (start + first) * inner, (end - first) * inner);
    }
  }
}
