// Product of matrices of doubles, c = a b + bias, in batches; the result is row-major with columns side by side.
//
// A piece is up to 48 rows by 16 columns of one batch element, a ticket a run of pieces, neighbours along the columns. Full
// columns of b that lie side by side are read where they are by few rows; others are copied to scratch first, [k][16].
//
// a, b, bias, c               doubles; without a bias, anything that can be read
// *_batch                     doubles from one batch element to the next;  inner, *_outer: batch elements of an outer one, doubles
//                             from one outer one to the next
// a_row, a_step               from one row and column of a to the next;  b_row, b_column: of b;  c_row: of c
// bias_row, bias_column       of the bias;  biased: 1 where there is one
// rows, columns, depth        M, N, K
// dots                        1: b is few long columns, copied to lie in one piece where they do not, and a_step is 1;  0: not
// groups, spans               pieces side by side, below one another;  pieces, ticket_pieces: in all, of a ticket
//
// scratch: depth * 16 doubles. Sums run in double, in order or, of dots, each of 16 apart:
// |error| <= (depth + 1) 2^-53 (sum |a b| + |bias|), whether or not products and sums are fused.
#include "tile.clh"

#ifdef cl_khr_fp64
#define ROWS 6
#define PIECE 48

#define SUMS(i) const int r##i = min(i, last) * row; double16 s##i = 0.0;
#define STEP(i) s##i = fma((double16)(a[r##i]), v, s##i);
#define KEEP(i) vstore16(s##i, i, to);

// The sums of ROWS rows, the last of them again for those behind it, to [ROWS][16].
NOINLINE static void six_rows(__global const double* restrict a, const int row, const int last, const int step,
                              __global const double* restrict b, const int b_row, const int depth, double* restrict to) {
  SUMS(0) SUMS(1) SUMS(2) SUMS(3) SUMS(4) SUMS(5)
  for (int k = 0; k < depth; k++, a += step, b += b_row) {
    const double16 v = vload16(0, b);
    STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5)
  }
  KEEP(0) KEEP(1) KEEP(2) KEEP(3) KEEP(4) KEEP(5)
}

NOINLINE static void single_row(__global const double* restrict a, const int step, __global const double* restrict b,
                                const int b_row, const int depth, double* restrict to) {
  double16 s0 = 0.0;
  for (int k = 0; k < depth; k++) s0 = fma((double16)(a[k * step]), vload16(0, b + (long)k * b_row), s0);
  KEEP(0)
}
#undef SUMS
#undef STEP
#undef KEEP

static double sum_of_16_doubles(const double16 v) {
  const double8 a = v.lo + v.hi;
  const double4 b = a.lo + a.hi;
  const double2 c = b.lo + b.hi;
  return c.x + c.y;
}

// The sums of four rows, the last of them again for those behind it, by one column that lies in one piece, to [4][16].
NOINLINE static void four_dots(__global const double* a, const int row, const int last, __global const double* b,
                               const int depth, double* to) {
  __global const double* const r0 = a;
  __global const double* const r1 = a + (long)min(1, last) * row;
  __global const double* const r2 = a + (long)min(2, last) * row;
  __global const double* const r3 = a + (long)min(3, last) * row;
  double16 s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
  int k = 0;
  for (; k + 16 <= depth; k += 16) {
    const double16 v = vload16(0, b + k);
    s0 = fma(vload16(0, r0 + k), v, s0);
    s1 = fma(vload16(0, r1 + k), v, s1);
    s2 = fma(vload16(0, r2 + k), v, s2);
    s3 = fma(vload16(0, r3 + k), v, s3);
  }
  double4 sum = (double4)(sum_of_16_doubles(s0), sum_of_16_doubles(s1), sum_of_16_doubles(s2), sum_of_16_doubles(s3));
  for (; k < depth; k++) sum += (double4)(r0[k], r1[k], r2[k], r3[k]) * b[k];
  to[0] = sum.x, to[16] = sum.y, to[32] = sum.z, to[48] = sum.w;
}

NOINLINE static void gather_columns(__global const double* restrict b, const int row, const int column, const int depth,
                                    const int columns, __global double* restrict to) {
  if (column == 1 && columns == 16) {
    for (int k = 0; k < depth; k++) vstore16(vload16(0, b + (long)k * row), k, to);
    return;
  }
  for (int j = 0; j < 16; j++)
    for (int k = 0; k < depth; k++) to[k * 16 + j] = j < columns ? b[(long)k * row + (long)j * column] : 0.0;
}
#endif

static void matmul_doubles(__global const matmul_doubles_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
#ifdef cl_khr_fp64
  const int end = min((ticket + 1) * d->ticket_pieces, d->pieces), depth = d->depth;
  double sums[ROWS * 16];
  for (int p = ticket * d->ticket_pieces; p < end; p++) {
    const int g = p % d->groups, span = p / d->groups % d->spans, n = p / d->groups / d->spans;
    const long outer = n / d->inner, inner = n % d->inner;
    const int columns = min(16, d->columns - g * 16), first = span * PIECE, last = min(first + PIECE, d->rows);
    __global const double* a = AT(const double, banks, d->a) + outer * d->a_outer + inner * d->a_batch;
    __global const double* b =
        AT(const double, banks, d->b) + outer * d->b_outer + inner * d->b_batch + (long)g * 16 * d->b_column;
    __global const double* bias =
        AT(const double, banks, d->bias) + outer * d->bias_outer + inner * d->bias_batch + (long)g * 16 * d->bias_column;
    __global double* c = AT(double, banks, d->c) + outer * d->c_outer + inner * d->c_batch + g * 16;
    int b_row = d->b_row;
    const int dots = d->dots;
    long column = d->b_column;
    if (dots && b_row != 1) {
      __global double* to = (__global double*)scratch;
      for (int j = 0; j < columns; j++)
        for (int k = 0; k < depth; k++) to[j * depth + k] = b[(long)k * b_row + (long)j * d->b_column];
      b = to;
      column = depth;
    } else if (!dots && (columns < 16 || d->b_column != 1 || last - first > 2 * ROWS)) {
      gather_columns(b, d->b_row, d->b_column, depth, columns, (__global double*)scratch);
      b = (__global const double*)scratch;
      b_row = 16;
    }
    for (int y = first; y < last;) {
      const int count = dots ? min(4, last - y) : last - y < 3 ? 1 : min(ROWS, last - y);
      __global const double* from = a + (long)y * d->a_row;
      if (dots)
        for (int j = 0; j < columns; j++) four_dots(from, d->a_row, count - 1, b + j * column, depth, sums + j);
      else if (count == 1) single_row(from, d->a_step, b, b_row, depth, sums);
      else six_rows(from, d->a_row, count - 1, d->a_step, b, b_row, depth, sums);
      for (int i = 0; i < count; i++, y++) {
        __global double* to = c + (long)y * d->c_row;
        if (d->biased)
          for (int j = 0; j < columns; j++) to[j] = sums[i * 16 + j] + bias[(long)y * d->bias_row + j * d->bias_column];
        else
          for (int j = 0; j < columns; j++) to[j] = sums[i * 16 + j];
      }
    }
  }
#endif
}
#undef ROWS
#undef PIECE
