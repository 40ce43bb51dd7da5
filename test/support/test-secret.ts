// Names the JWT_SECRET of the gateways and stores of tests.
export const TEST_SECRET = 'a secret for tests, long enough and used nowhere else'
