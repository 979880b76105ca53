// Product of matrices, c = a b, in batches; the result is row-major with columns side by side.
//
// A ticket is a run of rows by a run of column groups, 64 columns each, of one batch element; tickets of the same part of
// the rows are neighbours, and of these the ones of the same column groups. b is packed in groups, [n / 64][k][64] with
// zeros behind the last column, or row-major: then groups that instances fill are read where they are, another last one and
// a transposed b are packed in scratch first. Up to four rows of one sum read a last group that is not transposed where it is;
// so does one row full groups of which an instance computes fewer columns at once. Rows of at most 16 floats by at most 4
// columns are computed four a vector.
//
// a, a_batch, a_row, a_step    floats from one batch element, row, column to the next
// b, b_batch                   b_group, b_row: from one group, row k to the next;  b_column: from one column to the next
// inner, a_outer, b_outer      batch elements of an outer one; floats of a and b from one outer one to the next
// packed                       1: b is packed;  0: it is not
// c, c_batch, c_row            the result
// rows, columns, depth         M, N, K
// groups, ticket_groups, tiers     column groups in all, of a ticket, tickets side by side
// parts, part_rows             of the rows, and rows of one
// ticket_rows, spans           rows of a ticket, tickets of a part below one another
// nb, widest, first_id         columns / 16 and rows of the widest instance; id of the one-row instance, neighbours follow
// narrow_id                    instance of 6 rows and 32 columns, for groups that have no more, the one after next of 12 rows
//                              and 16 columns; -1: none
// ahead                        floats that a product of one row fetches ahead of its walk through b; 0: none
// fetched                      packed b that comes from memory: floats of the next group fetched with each k; 0: none
// narrow                       not 0: b is packed or dots, rows of the result are columns < 16 floats, one behind the other, and the list is
//                              applied to NARROW_ROWS at once;  scratch has room for it (narrow_rows.clh) and, so many bytes behind its begin, for a
//                              block of rows
// dots                         1: b is few columns, of which one lies in one piece or is copied to scratch to do so, as rows of
//                              a do;  0: it is not
//
// Error as in micro_matmul.cl; of dots the sums are shorter: depth / 16 products each, then 16 of these and what is left.
// Post-operations follow on each run of rows; outer and inner batch, row and 16-column vector are n, f, y and x.
#include "dots.clh"
#include "narrow_rows.clh"
#include "pack.clh"

#define FEW_ROWS 4
#define FEW_NARROW_ROWS 12  // of less than a vector, which take less time than a group that is filled up
#define NARROW_ROWS 32
#define DOT_ROWS 8  // that stay in the first-level cache for the next column
#define SHORT_DEPTH 16
#define ONE_SUM 1024  // products that micro_matmul.cl sums in order

// c = a b for one row of a and at most 64 columns of b, which lie side by side: vectors that overlap so that each is in its
// row.
NOINLINE static void row_by_columns(__global const float* a, const int a_step, __global const float* b, const int b_row,
                                    __global float* c, const int columns, const int depth) {
  if (columns < 16) {
    float16 total = 0.0f;
    const int safe = b_row > 0 ? depth - 1 - 15 / b_row : 0;
    for (int done = 0; done < depth; done += ONE_SUM) {
      const int end = min(depth, done + ONE_SUM);
      float16 sum = 0.0f;
      for (int k = done; k < min(safe, end); k++)
        sum = fma((float16)(a[(long)k * a_step]), LOAD_LOOSE(b + (long)k * b_row), sum);
      for (int k = max(done, safe); k < end; k++)
        sum = fma((float16)(a[(long)k * a_step]), load_lanes(b + (long)k * b_row, 1, columns), sum);
      total += sum;
    }
    store_lanes(c, total, columns);
    return;
  }
  const int last = columns - 16, j1 = min(16, last), j2 = min(32, last);
  float16 s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
  for (int done = 0; done < depth; done += ONE_SUM) {
    float16 t0 = 0.0f, t1 = 0.0f, t2 = 0.0f, t3 = 0.0f;
    for (int k = done; k < min(depth, done + ONE_SUM); k++, b += b_row) {
      const float16 v = (float16)(a[(long)k * a_step]);
      t0 = fma(v, LOAD_LOOSE(b), t0);
      t1 = fma(v, LOAD_LOOSE(b + j1), t1);
      t2 = fma(v, LOAD_LOOSE(b + j2), t2);
      t3 = fma(v, LOAD_LOOSE(b + last), t3);
    }
    s0 += t0, s1 += t1, s2 += t2, s3 += t3;
  }
  STORE_LOOSE(c, s0);
  STORE_LOOSE(c + j1, s1);
  STORE_LOOSE(c + j2, s2);
  STORE_LOOSE(c + last, s3);
}

// c = a b for rows of at most SHORT_DEPTH floats and at most 4 columns: four rows a vector.
NOINLINE static void short_rows_by_columns(__global const float* a, const int a_row, const int a_step,
                                           __global const float* b, const int b_row, const int b_column,
                                           __global float* c, const int c_row, const int rows, const int columns,
                                           const int depth) {
  float16 w[SHORT_DEPTH];
  for (int k = 0; k < depth; k++) {
    float v[4];
    for (int j = 0; j < 4; j++) v[j] = j < columns ? b[(long)k * b_row + (long)j * b_column] : 0.0f;
    const float4 row = vload4(0, v);
    w[k] = (float16)(row, row, row, row);
  }
  const int last = rows - 1;
  for (int y = 0; y < rows; y += 4) {
    __global const float* const r0 = a + (long)y * a_row;
    __global const float* const r1 = a + (long)min(y + 1, last) * a_row;
    __global const float* const r2 = a + (long)min(y + 2, last) * a_row;
    __global const float* const r3 = a + (long)min(y + 3, last) * a_row;
    float16 sum = 0.0f;
    for (int k = 0; k < depth; k++) {
      const long at = (long)k * a_step;
      sum = fma((float16)((float4)(r0[at]), (float4)(r1[at]), (float4)(r2[at]), (float4)(r3[at])), w[k], sum);
    }
    __global float* to = c + (long)y * c_row;
    if (y + 4 <= rows && (c_row == columns || c_row == 4)) {
      if (c_row == 4) STORE_LOOSE(to, sum);
      else if (columns == 3) vstore8(sum.s01245689, 0, to), vstore4(sum.sacde, 0, to + 8);
      else if (columns == 2) vstore8(sum.s014589cd, 0, to);
      else vstore4(sum.s048c, 0, to);
      continue;
    }
    float v[16];
    vstore16(sum, 0, v);
    for (int i = 0; i < min(4, rows - y); i++)
      for (int j = 0; j < columns; j++) to[(long)i * c_row + j] = v[4 * i + j];
  }
}

// Write columns of b one behind the other; return them.
static __global const float* columns_in_one_piece(__global const float* b, const int b_row, const int b_column,
                                                  const int depth, const int columns, __global float* to) {
  for (int j = 0; j < columns; j++)
    for (int k = 0; k < depth; k++) to[j * depth + k] = b[(long)k * b_row + (long)j * b_column];
  return to;
}

static void matmul_rows(__global const matmul_rows_desc* d, __global char** banks, __global char* scratch,
                        const int ticket, __global const post_step* post, const int posts) {
  const int part_tickets = d->spans * d->tiers, n = ticket / part_tickets / d->parts;
  const int part = ticket / part_tickets % d->parts, span = ticket % d->spans, tier = ticket / d->spans % d->tiers;
  const int first_row = part * d->part_rows + span * d->ticket_rows;
  const int last_row = min(min(first_row + d->ticket_rows, (part + 1) * d->part_rows), d->rows);
  const int last_group = min((tier + 1) * d->ticket_groups, d->groups), nb = d->nb;
  const int outer = n / d->inner, inner = n % d->inner;
  __global const float* a = AT(const float, banks, d->a) + outer * d->a_outer + inner * d->a_batch;
  __global float* c = AT(float, banks, d->c) + (long)n * d->c_batch;
  const int steps = d->narrow ? 0 : posts;
  if (d->dots) {
    __global const float* b = AT(const float, banks, d->b) + outer * d->b_outer + inner * d->b_batch;
    __global float* to = c + (long)first_row * d->c_row;
    const int count = last_row - first_row, depth = d->depth;
    long column = d->b_column;
    if (d->b_row != 1) {
      b = columns_in_one_piece(b, d->b_row, d->b_column, depth, d->columns, (__global float*)scratch);
      column = depth;
    }
    for (int y = 0; y < count; y += DOT_ROWS)
      for (int j = 0; j < d->columns; j++)
        matmul_dots(a + (long)(first_row + y) * d->a_row, d->a_row, b + j * column, to + (long)y * d->c_row + j, d->c_row,
                    min(DOT_ROWS, count - y), depth);
    post_group(post, steps, banks, to, d->c_row, outer, inner, first_row, count, 0, d->columns);
  }
  for (int g = tier * d->ticket_groups; !d->dots && g < last_group; g++) {
    const int columns = min(64, d->columns - g * 64);
    __global const float* b =
        AT(const float, banks, d->b) + outer * d->b_outer + inner * d->b_batch + (long)g * d->b_group;
    int b_row = d->packed ? 64 : d->b_row;
    if (columns <= 4 && d->depth <= SHORT_DEPTH) {
      __global float* to = c + (long)first_row * d->c_row + g * 64;
      const int count = last_row - first_row;
      short_rows_by_columns(a + (long)first_row * d->a_row, d->a_row, d->a_step, b, b_row, d->packed ? 1 : d->b_column, to,
                            d->c_row, count, columns, d->depth);
      post_group(post, steps, banks, to, d->c_row, outer, inner, first_row, count, g, columns);
      continue;
    }
    const int few = last_row - first_row <= (columns < 16 ? FEW_NARROW_ROWS : columns < 64 ? FEW_ROWS : nb < 4);
    if (!d->packed && d->b_column == 1 && few) {
      __global float* to = c + (long)first_row * d->c_row + g * 64;
      for (int y = first_row; y < last_row; y++)
        row_by_columns(a + (long)y * d->a_row, d->a_step, b, b_row, to + (long)(y - first_row) * d->c_row, columns,
                       d->depth);
      post_group(post, steps, banks, to, d->c_row, outer, inner, first_row, last_row - first_row, g, columns);
      continue;
    }
    // Narrow groups go in blocks of 6 or 12 rows, the last of which begins so that it is full: rows that it has in common with
    // the one before are computed twice, with the same result.
    const int block = d->narrow_id < 0 || columns > 32 || last_row - first_row < 6 ? 0
                      : columns <= 16 && last_row - first_row >= 12               ? 12
                                                                                  : 6;
    const int block_id = d->narrow_id + (block == 12 ? 2 : 0), step = block == 12 ? 16 : block ? 32 : nb * 16;
    if (!d->packed && (columns % step || d->b_column != 1)) {
      pack_columns(b, d->b_row, d->b_column, d->depth, columns, (__global float*)scratch);
      b = (__global const float*)scratch;
      b_row = 64;
    }
    __global const float* next = b + (d->fetched && g + 1 < d->groups ? d->b_group : 0);
    for (int y = first_row; y < last_row;) {
      if (block) y = min(y, last_row - block);
      const int left = last_row - y, pieces = (left + d->widest - 1) / d->widest;
      const int count = block ? block : (left + pieces - 1) / pieces, id = block ? block_id : d->first_id + count - 1;
      __global float* to = c + (long)y * d->c_row + g * 64;
      if (block && d->narrow) {
        __global float* tile = (__global float*)(scratch + d->narrow);
        micro_matmul(id, a + (long)y * d->a_row, d->a_row, d->a_step, b, b_row, tile, step, step, d->depth, 0, b, 0);
        // What a vector has behind its columns is overwritten by the rows that follow, but for the last ones.
        for (int i = 0; i < block; i++, to += columns) {
          if ((last_row - y - i) * columns >= 16) STORE_LOOSE(to, LOAD_LOOSE(tile + i * step));
          else store_lanes(to, LOAD_LOOSE(tile + i * step), columns);
        }
        y += block;
        continue;
      }
      for (int j = 0; j < columns; j += step, next += (long)d->fetched * d->depth)
        micro_matmul(id, a + (long)y * d->a_row, d->a_row, d->a_step, b + j, b_row, to + j, d->c_row,
                     columns - j, d->depth, 0, d->ahead ? b + j + d->ahead : next, d->ahead ? b_row : d->fetched);
      post_group(post, steps, banks, to, d->c_row, outer, inner, y, count, g, columns);
      y += count;
    }
  }
  for (int y = first_row; d->narrow && y < last_row; y += NARROW_ROWS) {
    __global float* to = c + (long)y * d->c_row;
    post_narrow(post, posts, banks, to, to, scratch, outer, inner, y, min(NARROW_ROWS, last_row - y), d->rows, d->columns,
                y > first_row);
  }
}
#undef FEW_ROWS
#undef FEW_NARROW_ROWS
#undef ONE_SUM
#undef SHORT_DEPTH
#undef DOT_ROWS
#undef NARROW_ROWS
