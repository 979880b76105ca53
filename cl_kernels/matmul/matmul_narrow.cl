// Product of matrices, c = a b, where b has 16 bits an element: halves or bfloat16, packed in groups of 64 columns. What is
// computed are floats: b's are exactly those.
//
// A ticket is a run of rows by a run of column groups. One row is multiplied by b as it lies in memory; of several, the first
// block makes floats in scratch of PANEL rows of a group at a time, for the others, and fetches the next ones, which lie behind
// them: else the products would wait for memory, and then memory for the products.
//
// a, a_batch, a_row, a_step    as in matmul_rows.cl
// b, b_group                   [n / 64][k][64] with zeros behind the last column; elements from one group to the next
// c, c_batch, c_row            the result
// rows, columns, depth         M, N, K
// groups, ticket_groups, tiers, ticket_rows, spans   as in matmul_rows.cl
// nb, widest, first_id         as in matmul_rows.cl
// row_id                       instance of micro_narrow_row
// widening_id                  instance of micro_widening_matmul for one row, with those for more behind it
//
// Error and order of the sums as in micro_matmul.cl. Post-operations follow on each run of rows; batch, row and 16-column
// vector are n, y and x.
#include "post_tile.clh"

#define PANEL 1024  // rows of b, a multiple of what micro_matmul adds up at a time

static void matmul_narrow(__global const matmul_narrow_desc* d, __global char** banks, __global char* scratch,
                          const int ticket, __global const post_step* post, const int posts) {
  const int span = ticket % d->spans, tier = ticket / d->spans % d->tiers, n = ticket / d->spans / d->tiers;
  const int first_row = span * d->ticket_rows, last_row = min(first_row + d->ticket_rows, d->rows);
  const int last_group = min((tier + 1) * d->ticket_groups, d->groups), nb = d->nb;
  __global const float* a = AT(const float, banks, d->a) + (long)n * d->a_batch;
  __global float* c = AT(float, banks, d->c) + (long)n * d->c_batch;
  __global float* panel = (__global float*)scratch;
  for (int g = tier * d->ticket_groups; g < last_group; g++) {
    const int columns = min(64, d->columns - g * 64);
    __global const ushort* b = AT(const ushort, banks, d->b) + (long)g * d->b_group;
    if (d->rows == 1) {
      __global float* to = c + g * 64;
      micro_narrow_row(d->row_id, a, d->a_step, b, to, columns, d->depth);
      post_group(post, posts, banks, to, d->c_row, 0, n, 0, 1, g, columns);
      continue;
    }
    for (int k = 0; k < d->depth; k += PANEL) {
      const int depth = min(PANEL, d->depth - k);
      const int fetched = k + depth < d->depth || g + 1 < d->groups ? 64 : 0;
      for (int y = first_row; y < last_row;) {
        const int left = last_row - y, pieces = (left + d->widest - 1) / d->widest, count = (left + pieces - 1) / pieces;
        __global const float* rows = a + (long)y * d->a_row + (long)k * d->a_step;
        __global float* to = c + (long)y * d->c_row + g * 64;
        for (int j = 0; j < columns; j += nb * 16)
          if (y == first_row) {
            __global const ushort* own = b + k * 64 + j;
            micro_widening_matmul(d->widening_id + count - 1, rows, d->a_row, d->a_step, own, panel + j, to + j, d->c_row,
                                  columns - j, depth, k > 0, j || !fetched ? own : b + (k + depth) * 64, j ? 0 : fetched);
          } else
            micro_matmul(d->first_id + count - 1, rows, d->a_row, d->a_step, panel + j, 64, to + j, d->c_row, columns - j,
                         depth, k > 0, panel, 0);
        if (k + depth == d->depth) post_group(post, posts, banks, to, d->c_row, 0, n, y, count, g, columns);
        y += count;
      }
    }
  }
}
