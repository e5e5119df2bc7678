import { App } from 'aws-cdk-lib';
import { addStacks } from './app.js';

const app = new App();
try {
  addStacks(app);
} catch (error) {
  // What is wrong with a setting is said in one line; a stack trace would hide it.
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
app.synth();
