// Product of rows in digits and a matrix of 2, 4 or 8 bits that has a scale a block. A ticket is a run of rows by a run of
// column groups, 64 columns each; a group's records are read from the first to the last, one forward stream. Many rows
// take the weights of a block and of 64 columns as bytes in scratch, and keep their sums there, STRIP rows at a time.
//
// digits, sums, scales         of a, as block_digits.cl writes them; count bytes of a number, parts sums, for `pitch` rows
// records, group               as in clgraph/ops/block_records.py; ints from one group to the next
// c                            the result, rows of `columns` floats side by side
// rows, columns, blocks, block M, N, blocks along K and weights in one
// pieces, zeros, bits          as in micro_digits.cl
// groups, ticket_groups, tiers column groups in all, of a ticket, tickets side by side
// ticket_rows, spans           rows of a ticket, tickets below one another
// many                         rows of a ticket from which on they are computed together; 0: never
// row_id, rows_id              instances for a row, and for many
//
// Error as in micro_digits.cl. Post-operations follow on each run of rows; row and 16-column vector are y and x.
#include "post_tile.clh"
#include "records.clh"

#define STRIP 132  // rows whose sums and digits of a block stay in the core's caches: a prompt's 128; a multiple of 3 and 4

// The weights of a record as words of four bytes: to[4 * word][64]. What comes `next` words behind is fetched meanwhile.
static void block_bytes(__global const uint* w, const int next, const int pieces, const int bits, __global uint* to) {
  const uint16 mask = 0x01010101 * ((1u << bits) - 1);
  for (int p = 0; p < pieces; p++, w += 64) {
    uint16 words[4];
    #pragma unroll
    for (int j = 0; j < 4; j++) {
      FETCH_NEXT(w + next + j * 16);
      words[j] = as_uint16(LOAD_LOOSE((__global const float*)w + j * 16));
    }
    for (int shift = 0; shift < 8; shift += bits, to += 64) {
      #pragma unroll
      for (int j = 0; j < 4; j++) *(__global uint16*)(to + j * 16) = words[j] >> (uint16)(shift) & mask;
    }
  }
}

// Rows [first, first + count) times a group of columns, of which the first `columns` exist.
static void digit_strip(__global const block_matmul_digits_desc* d, __global char** banks, __global char* scratch,
                        __global const uint* w, const int first, const int count, __global float* c, const int columns) {
  const int pieces = d->pieces, blocks = d->blocks, record = d->group / blocks, each = d->count, parts = d->parts, pitch = d->pitch;
  const long block_digits = (long)pitch * d->block * each;
  __global float* sums = (__global float*)scratch;
  __global uint* bytes = (__global uint*)(sums + (STRIP + 4) * 64);
  __global const char* x = AT(const char, banks, d->digits) + (long)first * d->block * each;
  __global const int* sum_of = AT(const int, banks, d->sums) + first * parts;
  __global const float* scale_of = AT(const float, banks, d->scales) + first;
  for (int i = 0; i < count * 64; i += 16) STORE16(sums + i, (float16)(0.0f));
  for (int b = 0; b < blocks; b++, w += record, x += block_digits, sum_of += pitch * parts, scale_of += pitch) {
    block_bytes(w, record, pieces, d->bits, bytes);
    micro_digit_rows(d->rows_id, x, sum_of, scale_of, count, d->block / 16, block_digits, (__global const int*)bytes,
                     (__global const float*)w + 64 * pieces, d->zeros ? (__global const uchar*)(w + 64 * (pieces + 1)) : 0,
                     sums);
  }
  for (int y = 0; y < count; y++, c += d->columns)
    for (int j = 0; j < columns; j += 16) {
      const float16 v = LOAD16(sums + y * 64 + j);
      if (columns - j >= 16) {
        STORE_LOOSE(c + j, v);
      } else {
        store_lanes(c + j, v, columns - j);
      }
    }
}

static void block_matmul_digits(__global const block_matmul_digits_desc* d, __global char** banks, __global char* scratch,
                                const int ticket, __global const post_step* post, const int posts) {
  const int span = ticket % d->spans, tier = ticket / d->spans, row = d->block * d->count;
  const int first_row = span * d->ticket_rows, last_row = min(first_row + d->ticket_rows, d->rows);
  const int strip = d->many && last_row - first_row >= d->many ? STRIP : 1;
  const int last_group = min((tier + 1) * d->ticket_groups, d->groups);
  for (int g = tier * d->ticket_groups; g < last_group; g++) {
    const int columns = min(64, d->columns - g * 64);
    __global const uint* w = AT(const uint, banks, d->records) + (long)g * d->group;
    for (int y = first_row; y < last_row; y += strip) {
      const int count = min(strip, last_row - y);
      __global float* to = AT(float, banks, d->c) + (long)y * d->columns + g * 64;
      if (strip > 1) {
        digit_strip(d, banks, scratch, w, y, count, to, columns);
      } else {
        micro_digits(d->row_id, AT(const char, banks, d->digits) + (long)y * row, AT(const int, banks, d->sums) + y * d->parts,
                     AT(const float, banks, d->scales) + y, d->pitch, d->blocks, w, d->pieces, d->zeros, to, columns);
      }
      post_group(post, posts, banks, to, d->columns, 0, 0, y, count, g, columns);
    }
  }
}
