// Support vector machines: ai.onnx.ml's SVMRegressor and SVMClassifier on kernels of rows with support vectors.
//
// x       [rows, features] FEATURE, dense
// packed  [blocks][features + pairs][LANES] float: of LANES support vectors each feature, then the weights for each
//         pair of classes, zeros behind the last; a regressor is of one pair
// labels  [rows] long: the place of the class with the most votes, of a classifier
// scores  [rows, results] float: the number of a regressor; probabilities of classes, or the transformed scores of
//         pairs, of two classes those of both
// Grid: a work-item for each block of rows, n of them: RUN rows at once against LANES vectors, whose products are
// summed as those of a matrix product, BESIDE rows in registers, CHUNK features at a time.
// table: rows, rows of a block, features, vectors, pairs, classes (0 of a regressor), function (0 linear,
// 1 power, 2 exp of the squared distance, 3 tanh), transform (0 none, 1 softmax, 2 logistic, 3 softmax that leaves
// zeros), whether there are probabilities, whether a regressor gives 1 and -1; then as the two words of a double each
// gamma, the coefficient, the degree, rho of each pair, with probabilities a factor of each pair, then an addend.
//
// FEATURE  float or double (default float)
// SQUARES  1: squared distances are summed, 0: products (default 0)
// BESIDE   rows whose sums are in registers, a divisor of 16 (default 2)
// PAIRS    pairs at most (default 28)
// CLASSES  classes at most (default 8)
//
// Error: u = 2^-53, all in doubles, rounded once to float. A product of m features is off by (m + 2) u of the sum of
// its absolute values, exp, tanh and pow by 8 u and by what the error of their argument makes, a score of v vectors by
// another (v + 2) u of the sum of its absolute values. Probabilities end where a step changes less than
// 0.005 / classes.
#include "tensor.clh"
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define NOINLINE __attribute__((noinline))
#include "double_runs.clh"
#include "double_power.clh"

#ifndef FEATURE
  #define FEATURE float
#endif
#ifndef SQUARES
  #define SQUARES 0
#endif
#ifndef BESIDE
  #define BESIDE 2
#endif
#ifndef PAIRS
  #define PAIRS 28
#endif
#ifndef CLASSES
  #define CLASSES 8
#endif
#define LANES 16
#define CHUNK 128
#define RUN 16
#define FIRST_NUMBER 10
#define LEAST_SHARE 1e-7

enum { LINEAR, POLY, RBF, SIGMOID };
enum { NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO };

static double number_at(__global const int* table, const int i) {
  __global const int* words = table + FIRST_NUMBER + 2 * i;
  return as_double((ulong)(uint)words[0] | (ulong)(uint)words[1] << 32);
}

static double logistic(const double x) {
  const double small = 1 / (1 + exp(-fabs(x)));
  return x < 0 ? 1 - small : small;
}

// Adds to the sums of R rows with LANES vectors what `count` features add.
#if SQUARES
  #define ADD(sum, x, v) sum = fma((x) - (v), (x) - (v), sum)
#else
  #define ADD(sum, x, v) sum = fma(x, v, sum)
#endif
#define UNROLL __attribute__((opencl_unroll_hint))
#define TILE(R)                                                                                            \
  static void add_features_##R(__global const float* v, const double* x, const int count, double* found) { \
    double8 low[R], high[R];                                                                               \
    UNROLL for (int r = 0; r < R; r++) low[r] = vload8(2 * r, found), high[r] = vload8(2 * r + 1, found);  \
    for (int k = 0; k < count; k++) {                                                                      \
      const double8 a = convert_double8(vload8(2 * k, v)), b = convert_double8(vload8(2 * k + 1, v));      \
      UNROLL for (int r = 0; r < R; r++) {                                                                 \
        const double8 own = x[r * CHUNK + k];                                                              \
        ADD(low[r], own, a), ADD(high[r], own, b);                                                         \
      }                                                                                                    \
    }                                                                                                      \
    UNROLL for (int r = 0; r < R; r++) vstore8(low[r], 2 * r, found), vstore8(high[r], 2 * r + 1, found);  \
  }
TILE(1)
#define TILE_OF(R) TILE(R)
TILE_OF(BESIDE)
#define NAME(R) add_features_##R
#define NAME_OF(R) NAME(R)

// Replaces n products or, of RBF, squared distances by the function of them.
static void apply(double* found, const int n, const int function, const double gamma, const double added,
                  const double degree) {
  if (function == LINEAR) return;
  if (function == RBF) {
    for (int i = 0; i < n; i++) found[i] = double_exp(-gamma * found[i]);
    return;
  }
  for (int i = 0; i < n; i++) found[i] = gamma * found[i] + added;
  if (function == SIGMOID)
    for (int i = 0; i < n; i++) found[i] = double_tanh(found[i]);
  else if (degree == 2)
    for (int i = 0; i < n; i++) found[i] = found[i] * found[i];
  else if (degree == 3)
    for (int i = 0; i < n; i++) found[i] = found[i] * found[i] * found[i];
  else if (degree != 1)
    for (int i = 0; i < n; i++) found[i] = double_power(found[i], degree);
}

// Makes the scores of `rows` rows, at most RUN, with each pair.
static void score(__global const FEATURE* x, __global const float* packed, const int rows, __global const int* table,
                  double* scores) {
  const int features = table[2], vectors = table[3], pairs = table[4], function = table[6];
  const double gamma = number_at(table, 0), added = number_at(table, 1), degree = number_at(table, 2);
  double8 sums[RUN * PAIRS];
  double found[RUN * LANES], wide[RUN * CHUNK];
  const int computed = rows == 1 ? 1 : (rows + BESIDE - 1) / BESIDE * BESIDE;
  for (int i = 0; i < rows * pairs; i++) sums[i] = 0;
  for (int i = rows * CHUNK; i < computed * CHUNK; i++) wide[i] = 0;
  int held = -1;
  __global const float* block = packed;
  for (int begin = 0; begin < vectors; begin += LANES, block += (features + pairs) * LANES) {
    for (int i = 0; i < computed * LANES; i++) found[i] = 0;
    for (int first = 0; first < features; first += CHUNK) {
      const int count = min(CHUNK, features - first);
      for (int r = 0; held != first && r < rows; r++)
        for (int k = 0; k < count; k++) wide[r * CHUNK + k] = x[r * features + first + k];
      held = first;
      __global const float* v = block + first * LANES;
      if (rows == 1) add_features_1(v, wide, count, found);
      for (int r = 0; rows > 1 && r < rows; r += BESIDE)
        NAME_OF(BESIDE)(v, wide + r * CHUNK, count, found + r * LANES);
    }
    apply(found, rows * LANES, function, gamma, added, degree);
    for (int r = 0; r < rows; r++) {
      for (int i = vectors - begin; i < LANES; i++) found[r * LANES + i] = 0;
      const double8 low = vload8(2 * r, found), high = vload8(2 * r + 1, found);
      for (int p = 0; p < pairs; p++) {
        __global const float* weights = block + (features + p) * LANES;
        const double8 first = fma(low, convert_double8(vload8(0, weights)), sums[r * pairs + p]);
        sums[r * pairs + p] = fma(high, convert_double8(vload8(1, weights)), first);
      }
    }
  }
  for (int i = 0; i < rows * pairs; i++) {
    const double4 four = sums[i].lo + sums[i].hi;
    scores[i] = (four.x + four.z) + (four.y + four.w) + number_at(table, 3 + i % pairs);
  }
}

// Makes the probabilities of classes of the scores of pairs: Wu, Lin and Weng (2004), as libsvm has it.
static void couple(const double* pairs_of, const int classes, const int pairs, __global const int* table, double* p) {
  double against[CLASSES][CLASSES], q[CLASSES][CLASSES], qp[CLASSES];
  for (int i = 0, pair = 0; i < classes; i++)
    for (int j = i + 1; j < classes; j++, pair++) {
      const double factor = number_at(table, 3 + pairs + pair), addend = number_at(table, 3 + 2 * pairs + pair);
      const double won = 1 - logistic(pairs_of[pair] * factor + addend), most = 1 - LEAST_SHARE;
      const double share = won < LEAST_SHARE ? LEAST_SHARE : won > most ? most : won;
      against[i][j] = share, against[j][i] = 1 - share;
    }
  for (int i = 0; i < classes; i++) {
    q[i][i] = 0, p[i] = 1.0 / classes;
    for (int j = 0; j < classes; j++)
      if (i != j) q[i][j] = -against[j][i] * against[i][j], q[i][i] += against[j][i] * against[j][i];
  }
  for (int step = 0; step < 100; step++) {
    double total = 0;
    for (int i = 0; i < classes; i++) {
      qp[i] = 0;
      for (int j = 0; j < classes; j++) qp[i] += q[i][j] * p[j];
      total += p[i] * qp[i];
    }
    int going = 0;
    for (int i = 0; i < classes; i++) going |= !(fabs(qp[i] - total) < 0.005 / classes);
    if (!going) return;
    for (int t = 0; t < classes; t++) {
      const double own = q[t][t], change = (total - qp[t]) / own, scale = 1 + change;
      p[t] += change;
      total = (total + change * (change * own + 2 * qp[t])) / (scale * scale);
      for (int j = 0; j < classes; j++) qp[j] = (qp[j] + change * q[t][j]) / scale, p[j] /= scale;
    }
  }
}

// Applies the transform to the scores of a row.
static void transform(double* row, const int count, const int function) {
  if (function == LOGISTIC)
    for (int k = 0; k < count; k++) row[k] = logistic(row[k]);
  if (function != SOFTMAX && function != SOFTMAX_ZERO) return;
  double most = row[0], sum = 0;
  for (int k = 1; k < count; k++) most = row[k] > most || isnan(row[k]) ? row[k] : most;
  for (int k = 0; k < count; k++) {
    const int zero = function == SOFTMAX_ZERO && fabs(row[k]) <= 1e-7;
    row[k] = zero ? row[k] * exp(-most) : exp(row[k] - most);
    sum += zero ? 0 : row[k];
  }
  for (int k = 0; k < count; k++) row[k] /= sum;
}

// Returns the class with the most votes, of equal ones the first.
static int voted(const double* pairs_of, const int classes) {
  int votes[CLASSES], best = 0;
  for (int i = 0; i < classes; i++) votes[i] = 0;
  for (int i = 0, pair = 0; i < classes; i++)
    for (int j = i + 1; j < classes; j++, pair++) votes[pairs_of[pair] > 0 ? i : j]++;
  for (int i = 1; i < classes; i++) best = votes[i] > votes[best] ? i : best;
  return best;
}

__kernel void support_vector_rows(const int n, TENSOR(in0), TENSOR(in1), TENSOR(labels), TENSOR(out0),
                                  __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int block = table[1], features = table[2], pairs = table[4], classes = table[5], function = table[7];
  const int end = min(table[0], (id + 1) * block);
  __global const FEATURE* x = BASE_OF(const FEATURE, in0);
  __global const float* packed = BASE_OF(const float, in1);
  __global float* y = BASE_OF(float, out0);
  for (int first = id * block; first < end; first += RUN) {
    const int rows = min(RUN, end - first);
    double scores[RUN * PAIRS];
    score(x + (long)first * features, packed, rows, table, scores);
    for (int r = 0; r < rows; r++) {
      const double* pairs_of = scores + r * pairs;
      const long row = first + r;
      if (!classes) {
        y[row] = table[9] ? (pairs_of[0] > 0 ? 1.0f : -1.0f) : (float)pairs_of[0];
        continue;
      }
      BASE_OF(long, labels)[row] = voted(pairs_of, classes);
      double made[PAIRS];
      int count = pairs, how = function;
      if (table[8]) {
        count = classes;
        couple(pairs_of, classes, pairs, table, made);
      } else if (classes == 2) {
        count = 2;
        made[0] = function == NONE || function == LOGISTIC ? -pairs_of[0] : 1 - pairs_of[0], made[1] = pairs_of[0];
        how = function == LOGISTIC ? LOGISTIC : NONE;
      } else {
        for (int p = 0; p < pairs; p++) made[p] = pairs_of[p];
      }
      transform(made, count, how);
      for (int k = 0; k < count; k++) y[row * count + k] = made[k];
    }
  }
}
