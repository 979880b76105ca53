// Product of rows in digits and a matrix of 2, 4 or 8 bits that has a scale a block. A ticket is a run of rows by a run of
// column groups, 64 columns each; a group's records are read from the first to the last, one forward stream.
//
// digits, sums, scales         of a, as block_digits.cl writes them; count bytes of a number
// records, group               as in clgraph/ops/block_records.py; ints from one group to the next
// c                            the result, rows of `columns` floats side by side
// rows, columns, blocks, block M, N, blocks along K and weights in one
// pieces, zeros                as in micro_digits.cl
// groups, ticket_groups, tiers column groups in all, of a ticket, tickets side by side
// ticket_rows, spans           rows of a ticket, tickets below one another
// widest, first_id             rows of the widest instance, 1, 3 or 8; id of that with one row, the other follows
//
// Error as in micro_digits.cl. Post-operations follow on each run of rows; row and 16-column vector are y and x.
#include "vnni.clh"
#include "post_tile.clh"

static void block_matmul_digits(__global const block_matmul_digits_desc* d, __global char** banks, __global char* scratch,
                                const int ticket, __global const post_step* post, const int posts) {
  const int span = ticket % d->spans, tier = ticket / d->spans, blocks = d->blocks, padded = blocks * d->block;
  const int last_row = min((span + 1) * d->ticket_rows, d->rows);
  const int last_group = min((tier + 1) * d->ticket_groups, d->groups);
  const long x_row = (long)padded * d->count;
  for (int g = tier * d->ticket_groups; g < last_group; g++) {
    const int columns = min(64, d->columns - g * 64);
    __global const uint* w = AT(const uint, banks, d->records) + (long)g * d->group;
    for (int y = span * d->ticket_rows; y < last_row;) {
      const int count = last_row - y >= d->widest ? d->widest : 1;
      __global float* to = AT(float, banks, d->c) + (long)y * d->columns + g * 64;
      micro_digits(d->first_id + (count > 1), AT(const char, banks, d->digits) + y * x_row, x_row, padded,
                   AT(const int, banks, d->sums) + (long)y * blocks * d->count,
                   AT(const float, banks, d->scales) + (long)y * blocks, blocks, w, d->pieces, d->zeros, to, d->columns,
                   columns);
      post_group(post, posts, banks, to, d->columns, 0, y, count, g, columns);
      y += count;
    }
  }
}
