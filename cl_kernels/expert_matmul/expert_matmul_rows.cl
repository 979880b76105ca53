// Products of rows with the matrix of the expert that each has chosen; rows of one expert stand together.
//
// c[m, n] = sum over k of a[m, k] b[expert[m], k, n], where the numbers of experts ascend; one outside of b means its nearest
// end. A ticket is the rows of one expert by a run of column groups, 64 columns each. b is packed in groups,
// [experts][n / 64][k][64] with zeros behind the last column, or plain: then groups that instances fill are read where they
// are, another last one and a transposed b are packed in scratch first.
//
// a, a_row                 row-major
// b, b_expert, b_group     floats from one expert, group to the next
// numbers, wide            rows numbers of experts, of 8 bytes (wide) or 4
// c, c_row                 the result
// packed, b_row, b_column  1: b is packed;  0: it is not, and lies at these pitches
// rows, columns, depth, experts   M, N, K, matrices
// by_row                   1: there is a ticket for each row, that of an expert's first row computes all of them, because rows
//                          are fewer than experts;  0: one for each expert
// groups, ticket_groups, tiers    column groups in all, of a ticket, tickets side by side
// nb, widest, first_id     columns / 16 and rows of the widest instance; id of the one-row instance, neighbours follow
// ahead                    floats that a product of one row fetches ahead of its walk through a packed b
//
// Error as in micro_matmul.cl. Post-operations follow on each block of rows; row and 16-column vector are y and x.
#include "pack.clh"

static int expert_at(__global const expert_matmul_rows_desc* d, __global char** banks, const int row) {
  const long number = d->wide ? AT(const long, banks, d->numbers)[row] : (long)(AT(const int, banks, d->numbers)[row]);
  return (int)clamp(number, 0L, (long)d->experts - 1);
}

// Return the first row from `low` on whose expert is not below this one.
static int first_of(__global const expert_matmul_rows_desc* d, __global char** banks, int low, const int expert) {
  int high = d->rows;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (expert_at(d, banks, middle) < expert) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void expert_matmul_rows(__global const expert_matmul_rows_desc* d, __global char** banks, __global char* scratch,
                               const int ticket, __global const post_step* post, const int posts) {
  const int tier = ticket % d->tiers, slot = ticket / d->tiers, expert = d->by_row ? expert_at(d, banks, slot) : slot;
  if (d->by_row && slot && expert_at(d, banks, slot - 1) == expert) return;
  const int first_row = d->by_row ? slot : first_of(d, banks, 0, expert);
  const int last_row = first_of(d, banks, first_row, expert + 1), step = d->nb * 16;
  if (first_row == last_row) return;
  const int last_group = min((tier + 1) * d->ticket_groups, d->groups);
  const int ahead = d->packed && last_row - first_row == 1 ? d->ahead : 0;
  for (int g = tier * d->ticket_groups; g < last_group; g++) {
    const int columns = min(64, d->columns - g * 64);
    __global const float* b = AT(const float, banks, d->b) + expert * d->b_expert + g * d->b_group;
    int b_row = d->b_row;
    if (!d->packed && (columns % step || d->b_column != 1)) {
      pack_columns(b, d->b_row, d->b_column, d->depth, columns, (__global float*)scratch);
      b = (__global const float*)scratch;
      b_row = 64;
    }
    for (int y = first_row; y < last_row;) {
      const int left = last_row - y, pieces = (left + d->widest - 1) / d->widest, count = (left + pieces - 1) / pieces;
      __global const float* a = AT(const float, banks, d->a) + (long)y * d->a_row;
      __global float* to = AT(float, banks, d->c) + (long)y * d->c_row + g * 64;
      for (int j = 0; j < columns; j += step)
        micro_matmul(d->first_id + count - 1, a, d->a_row, 1, b + j, b_row, to + j, d->c_row, columns - j, d->depth, 0,
                     b + j + ahead, ahead ? b_row : 0);
      post_group(post, posts, banks, to, d->c_row, 0, 0, y, count, g, columns);
      y += count;
    }
  }
}
