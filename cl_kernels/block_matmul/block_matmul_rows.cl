// Product of rows of floats and a matrix of 2, 4 or 8 bits that has a scale a block, in float. A ticket is a run of rows by
// a run of column groups, 64 columns each. Few rows are multiplied by the weights as they lie in memory; for
// many, `panel` rows of a group at a time become floats in scratch.
//
// a, c                         rows of `depth` and `columns` floats side by side
// records, group               as in clgraph/ops/block_records.py; ints from one group to the next
// rows, columns, depth         M, N, K
// block, blocks, pieces, bits, zeros   weights of a block, blocks along K, words of a column in one, bits of a weight, whether
//                              there are zero points
// groups, ticket_groups, tiers column groups in all, of a ticket, tickets side by side
// ticket_rows, spans           rows of a ticket, tickets below one another
// row_id, most                 instance of micro_block_row for a row, those for 2, 4 ... rows follow; rows of the largest that
//                              is to be used, 0 for a panel of floats
// panel                        most weights of a column that are floats at a time; a multiple of the block
// nb, widest, first_id         as in matmul_rows.cl
//
// Error of few rows as in micro_block_row.cl, of many as in micro_matmul.cl and 2^-24 |w| of each weight. Post-operations
// follow on each run of rows; row and 16-column vector are y and x.
#include "few_bits.clh"

// The weights of `blocks` blocks of a group, of `bits` bits, as floats: to[k][64].
static inline __attribute__((always_inline)) void panel_of(__global const block_matmul_rows_desc* d, const int bits,
                                                            __global const uint* w, const int blocks, __global float* to) {
  const int pieces = d->pieces, zeros = d->zeros, record = 64 * (pieces + 1) + 16 * zeros;
  for (int b = 0; b < blocks; b++, w += record, to += d->block * 64) {
    float16 zero[4], scale[4];
    #pragma unroll
    for (int j = 0; j < 4; j++) {
      zero[j] = zero_points((__global const uchar*)(w + 64 * (pieces + 1)) + j * 16, zeros, bits);
      scale[j] = LOAD_LOOSE((__global const float*)w + 64 * pieces + j * 16);
    }
    __global float* row = to;
    for (int p = 0; p < pieces; p++) {
      uint16 words[4];
      #pragma unroll
      for (int j = 0; j < 4; j++) words[j] = load_words(w + p * 64 + j * 16);
      #pragma unroll
      for (int e = 0; e < 32 / bits; e++, row += 64) {
        #pragma unroll
        for (int j = 0; j < 4; j++)
          STORE16(row + j * 16, centred(words[j], e / 4 * bits + 8 * (e % 4), (1u << bits) - 1, zero[j]) * scale[j]);
      }
    }
  }
}

static void block_panel(__global const block_matmul_rows_desc* d, __global const uint* w, const int blocks,
                        __global float* to) {
  if (d->bits == 8) {
    panel_of(d, 8, w, blocks, to);
  } else if (d->bits == 4) {
    panel_of(d, 4, w, blocks, to);
  } else {
    panel_of(d, 2, w, blocks, to);
  }
}

// Rows [first, last) times a group of columns, in passes of as many rows as there is an instance for.
static void direct_rows(__global const block_matmul_rows_desc* d, __global const float* a, __global const uint* w,
                        __global float* c, const int columns, const int first, const int last) {
  int shift = 0;
  while ((2 << shift) <= min(d->most, last - first)) shift++;
  for (int y = first; y < last; y += 1 << shift) {
    while (shift && (1 << (shift - 1)) >= last - y) shift--;
    y = min(y, last - (1 << shift));  // rows that have been computed are computed again, to the same bits
    micro_block_row(d->row_id + shift, a + (long)y * d->depth, d->depth, d->blocks, w, d->pieces, d->zeros,
                    c + (long)y * d->columns, d->columns, columns);
  }
}

static void block_matmul_rows(__global const block_matmul_rows_desc* d, __global char** banks, __global char* scratch,
                              const int ticket, __global const post_step* post, const int posts) {
  const int span = ticket % d->spans, tier = ticket / d->spans, depth = d->depth, nb = d->nb;
  const int first_row = span * d->ticket_rows, last_row = min(first_row + d->ticket_rows, d->rows);
  const int last_group = min((tier + 1) * d->ticket_groups, d->groups);
  __global const float* a = AT(const float, banks, d->a);
  __global float* work = (__global float*)scratch;
  if (d->most && d->blocks * d->block > depth) {  // of one row
    for (int k = 0; k < d->blocks * d->block; k++) work[k] = k < depth ? a[k] : 0.0f;
    a = work;
  }
  for (int g = tier * d->ticket_groups; g < last_group; g++) {
    const int columns = min(64, d->columns - g * 64);
    __global const uint* w = AT(const uint, banks, d->records) + (long)g * d->group;
    __global float* c = AT(float, banks, d->c) + g * 64;
    if (d->most) direct_rows(d, a, w, c, columns, first_row, last_row);
    for (int k = 0; !d->most && k < depth; k += d->panel) {
      const int first = k / d->block, count = min(d->panel / d->block, d->blocks - first);
      block_panel(d, w + (long)first * (d->group / d->blocks), count, work);
      for (int y = first_row; y < last_row;) {
        const int left = last_row - y, pieces = (left + d->widest - 1) / d->widest, rows = (left + pieces - 1) / pieces;
        for (int j = 0; j < columns; j += nb * 16)
          micro_matmul(d->first_id + rows - 1, a + (long)y * depth + k, depth, 1, work + j, 64,
                       c + (long)y * d->columns + j, d->columns, columns - j, min(d->panel, depth - k), k > 0, work, 0);
        y += rows;
      }
    }
    post_group(post, posts, banks, c + (long)first_row * d->columns, d->columns, 0, 0, first_row, last_row - first_row, g,
               columns);
  }
}
